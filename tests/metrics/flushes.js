// A backend of statsd for tests: prints what it counted, a line of JSON each time.
exports.init = (_started, _config, events) => {
  events.on('flush', (_time, { counters, gauges, timer_counters, timer_data }) => {
    console.log(JSON.stringify({ counters, gauges, timer_counters, timer_data }));
  });
  return true;
};
