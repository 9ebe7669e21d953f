// A shop that answers first and works later: Express sends jobs to BullMQ's workers over redis, traced by BullMQ's own
// telemetry and OpenTelemetry's instrumentation of Node. `node jobs.js front PORT` and `node jobs.js worker CONCURRENCY`.
//
// The header `shop-cause` of a request names why the work of every tenth request ends late. Settings: SHOP_REDIS_PORT, and
// those of OpenTelemetry's exporter.

'use strict'

const { Queue, Worker } = require('bullmq')
const { BullMQOtel } = require('bullmq-otel')
const { trace } = require('@opentelemetry/api')

const USUAL_MS = 20
const LATE_MS = 150

const connection = { host: '127.0.0.1', port: Number(process.env.SHOP_REDIS_PORT) }
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const isLate = (number) => number % 10 === 3

function front (port) {
  const express = require('express')
  const app = express()
  const queue = new Queue('ship', { connection, telemetry: new BullMQOtel('shop') })
  app.get('/orders/:number', async (request, response) => {
    const job = { number: Number(request.params.number), cause: request.get('shop-cause') || 'healthy' }
    const attempts = job.cause === 'retry' ? { attempts: 2, backoff: { type: 'fixed', delay: LATE_MS } } : {}
    await queue.add('ship', job, { removeOnComplete: true, removeOnFail: true, ...attempts })
    response.json({ order: job.number })
  })
  app.listen(port, '127.0.0.1')
}

function worker (concurrency) {
  const ship = async (job) => {
    const { number, cause } = job.data
    if (cause === 'retry' && isLate(number) && job.attemptsMade === 0) {
      throw new Error('the carrier does not answer')
    }
    await sleep(cause === 'slow_task' && isLate(number) ? LATE_MS : USUAL_MS)
    await trace.getTracer('shop').startActiveSpan('carrier', async (span) => {
      await sleep(cause === 'slow_call' && isLate(number) ? LATE_MS : USUAL_MS / 4)
      span.end()
    })
  }
  const telemetry = new BullMQOtel('worker')
  const started = new Worker('ship', ship, { connection, concurrency, telemetry })
  started.on('error', (error) => console.error(error))
}

const [role, number] = process.argv.slice(2)
const roles = { front, worker }
roles[role](Number(number))
