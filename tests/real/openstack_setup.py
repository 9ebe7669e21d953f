"""Writes the configuration of the services that openstack.sh starts, and sets up what they need of each other.

    openstack_setup.py configure SETTINGS.json
    openstack_setup.py catalog|first SETTINGS.json

The settings: dir, venv, services (what runs besides Keystone: nova, cinder, mistral), ports (by name), hmac_key,
token_cache, password, since (when this start began). Only the standard library is used.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

REGION = "RegionOne"
HOST = "bench-host"  # the name under which services register; nobody looks it up
SERVICE = "service"  # user and project of the services themselves
DOMAIN = {"id": "default"}

settings = json.load(open(sys.argv[2], encoding="utf-8"))
ports, root, wanted = settings["ports"], settings["dir"], settings["services"].split()
state, log, run = (os.path.join(root, name) for name in ("state", "log", "run"))


def at(port, path=""):
    return "http://127.0.0.1:%d%s" % (ports[port], path)


keystone = at("keystone", "/v3")
# Of all services: by type, what must be wanted, name and URL.
CATALOG = {
    "placement": ("nova", "placement", at("placement")),
    "image": ("nova", "glance", at("glance")),
    "network": ("nova", "neutron", at("neutron")),
    "compute": ("nova", "nova", at("nova", "/v2.1")),
    "block-storage": ("cinder", "cinder", at("cinder", "/v3")),
    "workflowv2": ("mistral", "mistral", at("mistral", "/v2")),
}

# ------------------------------------------------------------------ configuration

# Services have a user of their own, as in real clouds: they refuse each other's tokens without the role `service`.
LOGIN = {
    "auth_url": keystone,
    "auth_type": "password",
    "username": SERVICE,
    "password": settings["password"],
    "user_domain_id": "default",
    "project_name": SERVICE,
    "project_domain_id": "default",
    "region_name": REGION,
}


def database(name):
    url = "mysql+pymysql://bench:bench@127.0.0.1:%d/%s?charset=utf8mb4" % (ports["mariadb"], name)
    return {"connection": url, "max_pool_size": 5, "max_overflow": 20}


def common(name, own):
    """What all services have, and what is theirs: sections by name."""
    sections = {
        "DEFAULT": {
            "log_file": "%s/%s.log" % (log, name),
            "use_stderr": "false",
            "transport_url": "rabbit://bench:bench@127.0.0.1:%d/" % ports["rabbitmq"],
        },
        "profiler": {
            "enabled": "true",
            "trace_sqlalchemy": "true",
            "hmac_keys": settings["hmac_key"],
            "connection_string": "redis://127.0.0.1:%d" % ports["redis"],
        },
        "keystone_authtoken": {
            "www_authenticate_uri": keystone,
            "token_cache_time": settings["token_cache"],
            **LOGIN,
        },
        "oslo_messaging_notifications": {"driver": "noop"},
        "oslo_concurrency": {"lock_path": state + "/locks"},
    }
    for section, keys in own.items():
        sections.setdefault(section, {}).update(keys)
    return sections


def write(folder, name, sections):
    path = os.path.join(run, folder)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
        for section, keys in sections.items():
            lines = ["%s = %s" % pair for pair in keys.items() if pair[1] is not None]
            file.write("[%s]\n%s\n\n" % (section, "\n".join(lines)))


def profile_log(name):
    """The configuration of Python's logging in Mistral's guide: its points go to a file of their own, without a prefix."""
    handler = {"class": "FileHandler", "level": "INFO"}
    write(name, "logging.conf", {
        "loggers": {"keys": "root,profiler_trace"},
        "handlers": {"keys": "file,profilerFile"},
        "formatters": {"keys": "verbose,profiler"},
        "logger_root": {"level": "INFO", "handlers": "file"},
        "logger_profiler_trace": {
            "level": "INFO", "handlers": "profilerFile", "qualname": "profiler_trace", "propagate": 0},
        "handler_file": {**handler, "formatter": "verbose", "args": '("%s/%s.log",)' % (log, name)},
        "handler_profilerFile": {**handler, "formatter": "profiler", "args": '("%s/%s_osprofile.log",)' % (log, name)},
        "formatter_verbose": {"format": "%(asctime)s %(process)d %(levelname)s %(name)s [-] %(message)s"},
        "formatter_profiler": {"format": "%(message)s"},
    })


def gunicorn(name, application, port):
    """In a file, because services read the command line themselves."""
    with open(os.path.join(run, name, "gunicorn.conf.py"), "w", encoding="utf-8") as file:
        file.write(
            'wsgi_app = "%s"\nbind = "127.0.0.1:%d"\nworkers = 1\nthreads = 8\nworker_class = "gthread"\n'
            'timeout = 120\ngraceful_timeout = 2\nkeepalive = 30\nerrorlog = "%s/%s.gunicorn.log"\n'
            "control_socket_disable = True\n" % (application, ports[port], log, name)
        )


def configure():
    etc = settings["venv"] + "/etc"
    for folder in ("locks", "nova", "neutron", "cinder", "images", "staging", "tasks", "image-cache"):
        os.makedirs(os.path.join(state, folder), exist_ok=True)
    write("keystone", "keystone.conf", common("keystone", {
        "database": database("keystone"),
        "fernet_tokens": {"key_repository": state + "/fernet-keys"},
        "fernet_receipts": {"key_repository": state + "/receipt-keys"},
        "credential": {"key_repository": state + "/credential-keys"},
        # The default of 12 costs 0.4 s of a processor for each login.
        "identity": {"password_hash_rounds": 4},
    }))
    gunicorn("keystone", "keystone.wsgi.api:application", "keystone")
    if "nova" in wanted:
        configure_nova(etc)
    if "cinder" in wanted:
        configure_cinder(etc)
    if "mistral" in wanted:
        configure_mistral()


def configure_nova(etc):
    """Placement, Glance, Neutron and Nova."""
    write("placement", "placement.conf", common("placement", {
        "api": {"auth_strategy": "keystone"},
        "placement_database": database("placement"),
    }))
    write("glance", "glance-api.conf", common("glance", {
        "DEFAULT": {
            "enabled_backends": "local:file",
            "worker_self_reference_url": at("glance"),
            "node_staging_uri": "file://%s/staging" % state,
            "image_cache_dir": state + "/image-cache",
        },
        "database": database("glance"),
        "glance_store": {"default_backend": "local"},
        "local": {"filesystem_store_datadir": state + "/images"},
        "os_glance_staging_store": {"filesystem_store_datadir": state + "/staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": state + "/tasks"},
        "paste_deploy": {"flavor": "keystone", "config_file": etc + "/glance/glance-api-paste.ini"},
    }))
    unlimited = ("network", "subnet", "port", "router", "security_group", "security_group_rule")
    write("neutron", "neutron.conf", common("neutron", {
        "DEFAULT": {
            "host": HOST,
            "core_plugin": "ml2",
            "service_plugins": "router",
            "auth_strategy": "keystone",
            "api_paste_config": etc + "/neutron/api-paste.ini",
            "state_path": state + "/neutron",
            # Nobody plugs ports in here.
            "notify_nova_on_port_status_changes": "false",
            "notify_nova_on_port_data_changes": "false",
            "dhcp_agent_notification": "false",
        },
        "database": database("neutron"),
        "quotas": {"quota_" + kind: -1 for kind in unlimited},
        "ml2": {
            "type_drivers": "local,flat,vlan,vxlan",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "openvswitch",
            "extension_drivers": "port_security",
        },
        "ml2_type_vxlan": {"vni_ranges": "1:100000"},
    }))
    nova = {
        "DEFAULT": {
            "host": HOST,
            "my_ip": "127.0.0.1",
            "state_path": state + "/nova",
            # Another fake driver makes up a new id for its node at each start, which Nova refuses.
            "compute_driver": "fake.FakeDriverWithoutFakeNodes",
        },
        "api": {"auth_strategy": "keystone"},
        "wsgi": {"api_paste_config": etc + "/nova/api-paste.ini"},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1},
        "vnc": {"enabled": "false"},
        "quota": {kind: -1 for kind in ("instances", "cores", "ram", "key_pairs")},
        "glance": LOGIN,
        "placement": LOGIN,
        "neutron": LOGIN,
        # Neutron lets no user's token alone delete the port of a server.
        "service_user": {**LOGIN, "send_service_user_token": "true"},
        "cinder": {"os_region_name": REGION, "catalog_info": "block-storage::publicURL"},
        "database": database("nova"),
        "api_database": database("nova_api"),
    }
    for name in ("nova-api", "nova-conductor", "nova-scheduler", "nova-compute"):
        # With threads, which are the default, OSProfiler's points of later requests go to older traces.
        is_default = name == "nova-api" or os.environ["REAL_NOVA_BACKEND"] == "shipped"
        backend = {"concurrency_backend": None if is_default else "eventlet"}
        write(name, "nova.conf", common(name, {**nova, "DEFAULT": {**nova["DEFAULT"], **backend}}))
    with open(etc + "/nova/api-paste.ini", encoding="utf-8") as source:
        with open(run + "/nova-api/api-paste.ini", "w", encoding="utf-8") as copy:
            copy.write(source.read())
    gunicorn("placement", "placement.wsgi.api:application", "placement")
    gunicorn("glance", "glance.wsgi.api:application", "glance")
    gunicorn("neutron", "neutron.wsgi.api:application", "neutron")
    gunicorn("nova-api", "nova.wsgi.osapi_compute:application", "nova")


def configure_cinder(etc):
    for name in ("cinder-api", "cinder-scheduler", "cinder-volume"):
        write(name, "cinder.conf", common(name, {
            "DEFAULT": {
                "host": HOST,
                "my_ip": "127.0.0.1",
                "state_path": state + "/cinder",
                "auth_strategy": "keystone",
                "api_paste_config": etc + "/cinder/api-paste.ini",
                "resource_query_filters_file": etc + "/cinder/resource_filters.json",
                "enabled_backends": "fake",
                "quota_volumes": -1,
                "quota_gigabytes": -1,
                "quota_snapshots": -1,
            },
            "fake": {
                "volume_driver": "cinder.tests.fake_driver.FakeLoggingVolumeDriver",
                "volume_backend_name": "fake",
            },
            "coordination": {"backend_url": "file://%s/cinder/coordination" % state},
            "database": database("cinder"),
        }))
    gunicorn("cinder-api", "cinder.wsgi.api:application", "cinder")
    # Cinder's API looks for its file in the home directory only.
    home = os.path.join(root, "home", ".cinder")
    os.makedirs(home, exist_ok=True)
    with open(run + "/cinder-api/cinder.conf", encoding="utf-8") as source:
        with open(home + "/cinder.conf", "w", encoding="utf-8") as copy:
            copy.write(source.read())


def configure_mistral():
    write("mistral", "mistral.conf", common("mistral", {
        # As in Mistral's guide to profiling.
        "DEFAULT": {"log_config_append": run + "/mistral/logging.conf", "log_file": None, "use_stderr": None},
        "api": {"host": "127.0.0.1", "port": ports["mistral"]},
        "engine": {"host": HOST},
        "executor": {"host": HOST},
        "cron_trigger": {"enabled": "false"},
        # By default, std.http refuses this machine, where all that workflows may ask is.
        "action_std_http": {"denied_cidrs": ""},
        "keystone": LOGIN,
        "database": database("mistral"),
    }))
    profile_log("mistral")


# ------------------------------------------------------------------ requests

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
token = None


def call(method, url, body=None, content_type="application/json"):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    headers = {"Content-Type": content_type}
    if token:
        headers["X-Auth-Token"] = token
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with opener.open(request, timeout=60) as answer:
            content = answer.read()
            return answer.headers, json.loads(content) if content[:1] == b"{" else {}
    except urllib.error.HTTPError as error:
        sys.exit("%s %s answered %d: %s" % (method, url, error.code, error.read()[:500]))


def log_in():
    global token
    user = {"name": "admin", "domain": DOMAIN, "password": settings["password"]}
    headers, _ = call("POST", keystone + "/auth/tokens", {"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "admin", "domain": DOMAIN}},
    }})
    token = headers["X-Subject-Token"]


def service_user():
    """Who the services are among themselves."""
    made = {}
    for kind, more in (("project", {}), ("user", {"password": settings["password"]})):
        known = call("GET", "%s/%ss?name=%s" % (keystone, kind, SERVICE))[1][kind + "s"]
        body = {kind: {"name": SERVICE, "domain_id": DOMAIN["id"], **more}}
        made[kind] = (known or [call("POST", "%s/%ss" % (keystone, kind), body)[1][kind]])[0]["id"]
    roles = {role["name"]: role["id"] for role in call("GET", keystone + "/roles")[1]["roles"]}
    for name in ("admin", "service"):
        call("PUT", "%s/projects/%s/users/%s/roles/%s" % (keystone, made["project"], made["user"], roles[name]))


def catalog():
    """Every service in the catalog, with its endpoints."""
    service_user()
    services = {one["type"]: one["id"] for one in call("GET", keystone + "/services")[1]["services"]}
    endpoints = call("GET", keystone + "/endpoints")[1]["endpoints"]
    for kind, (part, name, url) in CATALOG.items():
        if part not in wanted:
            if kind in services:  # from a start with more
                call("DELETE", keystone + "/services/" + services[kind])
            continue
        if kind not in services:
            made = call("POST", keystone + "/services", {"service": {"type": kind, "name": name}})[1]
            services[kind] = made["service"]["id"]
        for interface in ("public", "internal", "admin"):
            known = [e for e in endpoints if (e["service_id"], e["interface"]) == (services[kind], interface)]
            endpoint = {"service_id": services[kind], "interface": interface, "region_id": REGION, "url": url}
            if not known:
                call("POST", keystone + "/endpoints", {"endpoint": endpoint})
            elif known[0]["url"] != url:
                call("PATCH", keystone + "/endpoints/" + known[0]["id"], {"endpoint": {"url": url}})


def until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            sys.exit("not so after %d s: %s" % (seconds, what))
        time.sleep(0.5)


# A service that was killed counts as up for a minute: its report must be newer than its start.
def reported(url, *binaries):
    services = call("GET", url + "/os-services")[1]["services"]
    fresh = {s["binary"] for s in services if s["state"] == "up" and (s["updated_at"] or "") >= settings["since"]}
    return fresh.issuperset(binaries)


def first():
    """A flavor, an image and a network; then waits until Nova and Cinder can work."""
    nova, glance, neutron, cinder = (CATALOG[kind][2] for kind in ("compute", "image", "network", "block-storage"))
    if "nova" in wanted:
        names = [flavor["name"] for flavor in call("GET", nova + "/flavors")[1]["flavors"]]
        if "m1.tiny" not in names:
            flavor = {"name": "m1.tiny", "ram": 64, "vcpus": 1, "disk": 1}
            call("POST", nova + "/flavors", {"flavor": flavor})
        if not call("GET", glance + "/v2/images?name=cirros&status=active")[1]["images"]:
            image = {"name": "cirros", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
            made = call("POST", glance + "/v2/images", image)[1]
            call("PUT", glance + "/v2/images/%s/file" % made["id"], b"\0" * 65536, "application/octet-stream")
        if not call("GET", neutron + "/v2.0/networks?name=net")[1]["networks"]:
            made = call("POST", neutron + "/v2.0/networks", {"network": {"name": "net"}})[1]["network"]
            subnet = {"network_id": made["id"], "ip_version": 4, "cidr": "10.77.0.0/16"}
            call("POST", neutron + "/v2.0/subnets", {"subnet": subnet})
        until("Nova's services have reported", 180,
              lambda: reported(nova, "nova-conductor", "nova-scheduler", "nova-compute"))
    if "cinder" in wanted:
        until("Cinder's services have reported", 180, lambda: reported(cinder, "cinder-scheduler", "cinder-volume"))


if __name__ == "__main__":
    if sys.argv[1] == "configure":
        configure()
    else:
        log_in()
        {"catalog": catalog, "first": first}[sys.argv[1]]()
