//! Finds and deletes what runs have left in a cloud: everything in the projects that bench made, and elsewhere what has a
//! run's name. Nothing else is ever touched.
//!
//! Deleting takes several rounds: a network goes only when its servers have gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::cloud::{Caller, Cloud, CloudService, Problem};
use super::kinds::{self, ResourceKind};
use super::maker::escaped;
use super::names::SweepScope;

/// The wait between two rounds grows to this.
const WAIT_MAX: Duration = Duration::from_secs(3);
const WAIT_MIN: Duration = Duration::from_millis(200);
/// How much longer it may take for each thing.
const FOR_EACH: Duration = Duration::from_millis(500);
/// The number of rounds without a deletion after which none will come for longer than this can wait.
const REFUSED_ROUNDS: u32 = 7;
/// How many requests delete things at the same time.
const WORKERS: usize = 8;

/// Why something is still there although nothing refused to delete it.
const UNDER_WAY: &str = "it is still being deleted";
/// Why projects and users are still there.
const NEEDED: &str = "it stays while something is left in a project of the run, so that this can be found";

/// Something in a cloud.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LeftoverResource {
    /// What it is, such as `server`.
    pub what: String,
    /// Its id.
    pub id: String,
    /// Its name, which may be empty.
    pub name: String,
    /// Why it is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl std::fmt::Display for LeftoverResource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, id, name, why } = self;
        // Key pairs are known by name and user.
        let id = id.split('?').next().unwrap_or_default();
        let named = if name.is_empty() || name == id { id.to_owned() } else { format!("{name} ({id})") };
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        write!(formatter, "{what} {named}{why}")
    }
}

/// How a sweep ended.
#[derive(Debug, Default)]
pub struct SweepOutcome {
    /// How many things were deleted.
    pub deleted: usize,
    /// What is still there.
    pub left: Vec<LeftoverResource>,
    /// Why some things could not even be looked for.
    pub unknown: Vec<String>,
}

const USER: &str = "user";
const PROJECT: &str = "project";

/// A project with things in it, and its users.
struct ProjectResources {
    id: String,
    /// `None` for the deployment's own project, in which only names count.
    made: Option<LeftoverResource>,
    users: Vec<String>,
}

/// What was found in a round, in the order in which it must be deleted.
#[derive(Default)]
struct ResourceInventory {
    /// By kind, with who may delete them.
    things: Vec<(&'static ResourceKind, Caller, Vec<LeftoverResource>)>,
    flavors: Vec<LeftoverResource>,
    users: Vec<LeftoverResource>,
    projects: Vec<LeftoverResource>,
    unknown: Vec<Problem>,
}

impl ResourceInventory {
    fn count(&self) -> usize {
        let things: usize = self.things.iter().map(|(_, _, things)| things.len()).sum();
        things + self.flavors.len() + self.users.len() + self.projects.len()
    }

    fn all(self) -> Vec<LeftoverResource> {
        let things = self.things.into_iter().flat_map(|(_, _, things)| things);
        things.chain(self.flavors).chain(self.users).chain(self.projects).collect()
    }
}

/// Who can see what is in projects that were made, by project; see [`ResourceKind::is_for_members`].
type Members = BTreeMap<String, Caller>;

/// Looks for what these runs have left, and changes nothing: so what only members of a project see is not found.
pub async fn find(cloud: &Cloud, which: &SweepScope) -> SweepOutcome {
    let mut found = look(cloud, which, None).await;
    let unknown = reasons(std::mem::take(&mut found.unknown));
    SweepOutcome { deleted: 0, left: found.all(), unknown }
}

/// Deletes what these runs have left, until a time is over. The more things there are, the longer it is.
pub async fn sweep(cloud: &Cloud, which: &SweepScope, within: Duration) -> SweepOutcome {
    let (began, mut wait, mut within) = (Instant::now(), WAIT_MIN, within);
    let mut seen: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
    let (mut round, mut refused, mut members) = (0_u32, 0, Members::new());
    loop {
        let mut found = look(cloud, which, Some(&mut members)).await;
        let unknown = std::mem::take(&mut found.unknown);
        if let Some(why) = locked_out(cloud, &unknown).await {
            return SweepOutcome { deleted: seen.len(), left: found.all(), unknown: vec![why] };
        }
        if round == 0 {
            within += FOR_EACH * u32::try_from(found.count()).unwrap_or(u32::MAX);
        }
        let is_over = round > 0 && began.elapsed() > within || refused >= REFUSED_ROUNDS;
        round += 1;
        if !is_over {
            let ended = delete(cloud, &found, unknown.is_empty()).await;
            let mut is_stuck = true;
            for (thing, problem) in ended {
                let why = problem.map(|problem| problem.text);
                let known = seen.entry((thing.what, thing.id)).or_insert_with(|| why.clone());
                // What is being deleted is refused when it is deleted again.
                if known.is_some() {
                    *known = why;
                }
                is_stuck &= known.is_some();
            }
            refused = if is_stuck { refused + 1 } else { 0 };
        }
        let mut left = found.all();
        if left.is_empty() && unknown.is_empty() || is_over {
            for thing in &mut left {
                let key = (thing.what.clone(), thing.id.clone());
                let why = seen.remove(&key).flatten();
                let waits = if matches!(thing.what.as_str(), USER | PROJECT) { NEEDED } else { UNDER_WAY };
                thing.why = Some(why.unwrap_or_else(|| waits.to_owned()));
            }
            return SweepOutcome { deleted: seen.len(), left, unknown: reasons(unknown) };
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Why the deployment's user cannot even log in any more, if so: then no request will succeed.
async fn locked_out(cloud: &Cloud, unknown: &[Problem]) -> Option<String> {
    let is_refused = unknown.iter().any(|problem| problem.status == Some(401));
    if is_refused { cloud.refused_login().await } else { None }
}

fn reasons(problems: Vec<Problem>) -> Vec<String> {
    problems.into_iter().map(|problem| problem.text).collect()
}

/// One round of looking.
async fn look(cloud: &Cloud, which: &SweepScope, members: Option<&mut Members>) -> ResourceInventory {
    let mut found = ResourceInventory::default();
    let projects = named(cloud, PROJECT, which, &mut found.unknown).await;
    found.users = named(cloud, USER, which, &mut found.unknown).await;
    let mut places: Vec<ProjectResources> = projects.into_iter().map(ProjectResources::made).collect();
    let own = cloud.admin.project_id.clone();
    let users: Vec<String> = cloud.user_id.iter().cloned().collect();
    places.extend(own.map(|id| ProjectResources { id, made: None, users }));
    // The users of all projects stand with the first one: key pairs are not of a project.
    if let Some(first) = places.first_mut() {
        first.users.extend(found.users.iter().map(|user| user.id.clone()));
    }
    let mut none = Members::new();
    let has_members = kinds::ALL.iter().any(|kind| kind.is_for_members && cloud.has(kind.service));
    let members = match members.filter(|_| has_members) {
        Some(members) => {
            enter(cloud, &places, members, &mut found.unknown).await;
            members
        }
        None => &mut none,
    };
    for kind in kinds::ALL.iter().filter(|kind| cloud.has(kind.service)) {
        if kind.is_for_members {
            for place in &places {
                let caller = if place.made.is_none() { Some(&cloud.admin) } else { members.get(&place.id) };
                let Some(caller) = caller else { continue };
                let things =
                    of_kind(cloud, kind, (std::slice::from_ref(place), caller), which, &mut found.unknown);
                let things = things.await;
                found.things.push((kind, caller.clone(), things));
            }
        } else {
            let things = of_kind(cloud, kind, (&places, &cloud.admin), which, &mut found.unknown).await;
            found.things.push((kind, cloud.admin.clone(), things));
        }
    }
    if cloud.has(CloudService::Nova) {
        match get(cloud, CloudService::Nova, "/flavors?is_public=None").await {
            Ok(answer) => found.flavors = of_list(&answer["flavors"], "flavor", which),
            Err(problem) => found.unknown.push(problem),
        }
    }
    found.projects = places.into_iter().filter_map(|place| place.made).collect();
    found.unknown.sort_unstable_by(|a, b| a.text.cmp(&b.text));
    found.unknown.dedup_by(|a, b| a.text == b.text);
    found
}

/// The things of a kind in these places, as this caller sees them.
async fn of_kind(
    cloud: &Cloud,
    kind: &ResourceKind,
    (places, caller): (&[ProjectResources], &Caller),
    which: &SweepScope,
    unknown: &mut Vec<Problem>,
) -> Vec<LeftoverResource> {
    let owners = places.iter().flat_map(|place| match kind.is_of_user {
        true => place.users.iter().map(|user| (place, user)).collect::<Vec<_>>(),
        false => vec![(place, &place.id)],
    });
    let listed = in_parallel(owners.map(|(place, owner)| async move {
        let is_own = place.made.is_none() || kind.is_of_user && cloud.user_id.as_ref() == Some(owner);
        (is_own, list(cloud, caller, kind, (owner, place.made.is_none())).await)
    }));
    let mut things = Vec::new();
    for (is_own, listed) in listed.await {
        match listed {
            Ok(all) => things.extend(all.into_iter().filter(|thing| !is_own || which.has(&thing.name))),
            Err(problem) if problem.is_absence() => {}
            Err(problem) => unknown.push(problem),
        }
    }
    things
}

/// Makes the administrator a member of all projects that were made, unless it is one already.
async fn enter(
    cloud: &Cloud,
    places: &[ProjectResources],
    members: &mut Members,
    unknown: &mut Vec<Problem>,
) {
    let made = places.iter().filter(|place| place.made.is_some() && !members.contains_key(&place.id));
    let made: Vec<&ProjectResources> = made.collect();
    if made.is_empty() {
        return;
    }
    let role = match cloud.member_role().await {
        Ok(role) => role,
        Err(problem) => return unknown.push(problem),
    };
    let role = role.as_str();
    let entered = made.iter().map(|place| async move { (&place.id, cloud.inside(&place.id, role).await) });
    for (id, entered) in in_parallel(entered).await {
        match entered {
            Ok(caller) => drop(members.insert(id.clone(), caller)),
            Err(problem) => unknown.push(problem),
        }
    }
}

impl ProjectResources {
    fn made(project: LeftoverResource) -> Self {
        Self { id: project.id.clone(), made: Some(project), users: Vec::new() }
    }
}

async fn get(cloud: &Cloud, service: CloudService, path: &str) -> Result<Json, Problem> {
    cloud.call(&cloud.admin, Method::GET, (service, path), None).await
}

/// Projects or users with these names. Keystone filters them, and here they are checked again.
async fn named(
    cloud: &Cloud,
    what: &str,
    which: &SweepScope,
    unknown: &mut Vec<Problem>,
) -> Vec<LeftoverResource> {
    let path = format!("/{what}s?name__startswith={}", which.beginning());
    match get(cloud, CloudService::Keystone, &path).await {
        Ok(answer) => of_list(&answer[format!("{what}s").as_str()], what, which),
        // A user who may not see them has not made any in this run.
        Err(problem) if problem.status == Some(403) && matches!(which, SweepScope::Run(_)) => Vec::new(),
        Err(problem) => {
            unknown.push(problem);
            Vec::new()
        }
    }
}

fn of_list(list: &Json, what: &str, which: &SweepScope) -> Vec<LeftoverResource> {
    let all = list.as_array().into_iter().flatten().filter_map(|item| thing(what, item));
    all.filter(|thing| which.has(&thing.name)).collect()
}

fn thing(what: &str, item: &Json) -> Option<LeftoverResource> {
    let of = |key: &str| item.get(key).and_then(Json::as_str).map(str::to_owned);
    let name = of("name").unwrap_or_default();
    let id = of("id").or_else(|| Some(name.clone()).filter(|name| !name.is_empty()))?;
    // It becomes a part of a path.
    Some(LeftoverResource { what: what.to_owned(), id: escaped(&id), name, why: None })
}

/// The things of a kind that a project or user has. `own`: the project is the deployment's, whose things may be seen
/// without being an administrator.
async fn list(
    cloud: &Cloud,
    caller: &Caller,
    kind: &ResourceKind,
    (owner, own): (&str, bool),
) -> Result<Vec<LeftoverResource>, Problem> {
    let path = if own { kind.list.replace(kinds::OF_OTHERS, "") } else { kind.list.to_owned() };
    let path = path.replace("{owner}", owner);
    let answer = cloud.call(caller, Method::GET, (kind.service, &path), None).await?;
    let none =
        || Problem::new(format!("{}s could not be looked for: the answer has no `{}`", kind.what, kind.key));
    let mut things = Vec::new();
    for item in answer[kind.key].as_array().ok_or_else(none)? {
        if !own && !kind.is_of_user {
            match item[kind.owner].as_str() {
                Some(found) if found == owner => {}
                Some(_) => continue,
                None => {
                    let what = kind.what;
                    let text = format!("{what}s are not deleted: the service does not say whose they are");
                    return Err(Problem::new(text));
                }
            }
        }
        if (kind.is_deletable)(item) {
            let inner = kind.within.and_then(|key| item.get(key)).unwrap_or(item);
            things.extend(thing(kind.what, inner));
        }
    }
    if kind.is_by_name {
        things.iter_mut().for_each(|thing| thing.id = escaped(&thing.name));
    }
    if kind.is_of_user {
        // Its name identifies it only together with its user.
        things.iter_mut().for_each(|thing| thing.id = format!("{}?user_id={owner}", thing.id));
    }
    Ok(things)
}

/// One round of deleting, in order. Projects and users stay as long as something is in them, or may be, so that it can be
/// found. `is_complete`: everything could be looked for.
async fn delete(
    cloud: &Cloud,
    found: &ResourceInventory,
    is_complete: bool,
) -> Vec<(LeftoverResource, Option<Problem>)> {
    let mut ended = Vec::new();
    for (kind, caller, things) in &found.things {
        let deleting = things.iter().map(|thing| delete_one(cloud, caller, kind, thing));
        ended.extend(in_parallel(deleting).await);
    }
    let of = |service, path: &'static str, things: &[LeftoverResource]| {
        let all: Vec<_> =
            things.iter().map(|thing| (thing.clone(), format!("{path}/{}", thing.id))).collect();
        in_parallel(all.into_iter().map(move |(thing, path)| async move {
            let problem = delete_path(cloud, &cloud.admin, (service, &path)).await.err();
            (thing, problem)
        }))
    };
    ended.extend(of(CloudService::Nova, "/flavors", &found.flavors).await);
    if is_complete && found.things.iter().all(|(_, _, things)| things.is_empty()) {
        for project in &found.projects {
            delete_default_group(cloud, &project.id).await;
            forget_quotas(cloud, &project.id).await;
        }
        ended.extend(of(CloudService::Keystone, "/users", &found.users).await);
        ended.extend(of(CloudService::Keystone, "/projects", &found.projects).await);
    }
    ended
}

async fn in_parallel<F: Future>(work: impl Iterator<Item = F>) -> Vec<F::Output> {
    let running: Vec<F> = work.collect();
    stream::iter(running).buffered(WORKERS).collect().await
}

async fn delete_one(
    cloud: &Cloud,
    caller: &Caller,
    kind: &ResourceKind,
    thing: &LeftoverResource,
) -> (LeftoverResource, Option<Problem>) {
    let path = format!("{}/{}{}", kind.delete, thing.id, kind.options);
    let deleted = match kind.what {
        "router" => delete_router(cloud, kind, thing).await,
        _ => delete_path(cloud, caller, (kind.service, &path)).await,
    };
    (thing.clone(), deleted.err())
}

async fn delete_path(
    cloud: &Cloud,
    caller: &Caller,
    (service, path): (CloudService, &str),
) -> Result<(), Problem> {
    match cloud.call(caller, Method::DELETE, (service, path), None).await {
        Err(problem) if !problem.is_absence() => Err(problem),
        _ => Ok(()),
    }
}

/// A router goes only without its interfaces.
async fn delete_router(cloud: &Cloud, kind: &ResourceKind, router: &LeftoverResource) -> Result<(), Problem> {
    let ports = get(cloud, kind.service, &format!("/ports?device_id={}", router.id)).await?;
    for port in ports["ports"].as_array().into_iter().flatten() {
        let owner = port["device_owner"].as_str().unwrap_or_default();
        let is_interface = owner.starts_with("network:router_") || owner.starts_with("network:ha_router");
        // The gateway goes with the router.
        if !is_interface || owner == "network:router_gateway" {
            continue;
        }
        let (path, body) = (
            format!("{}/{}/remove_router_interface", kind.delete, router.id),
            json!({ "port_id": port["id"] }),
        );
        match cloud.call(&cloud.admin, Method::PUT, (kind.service, &path), Some(&body)).await {
            Err(problem) if !problem.is_absence() => return Err(problem),
            _ => {}
        }
    }
    delete_path(cloud, &cloud.admin, (kind.service, &format!("{}/{}", kind.delete, router.id))).await
}

/// The security group that Neutron has made for a project.
async fn delete_default_group(cloud: &Cloud, project: &str) {
    let kind = &kinds::SECURITY_GROUP;
    if !cloud.has(kind.service) {
        return;
    }
    let groups = list(cloud, &cloud.admin, kind, (project, false)).await.unwrap_or_default();
    for group in groups.iter().filter(|group| group.name == kinds::DEFAULT_GROUP) {
        // One that stays does no harm: it cannot be used without its project.
        let path = format!("{}/{}", kind.delete, group.id);
        let _ = delete_path(cloud, &cloud.admin, (kind.service, &path)).await;
    }
}

/// Services keep the quotas of projects that are gone.
async fn forget_quotas(cloud: &Cloud, project: &str) {
    for (service, path) in [
        (CloudService::Nova, "/os-quota-sets"),
        (CloudService::Neutron, "/quotas"),
        (CloudService::Cinder, "/os-quota-sets"),
    ] {
        if cloud.has(service) {
            // Without quotas of its own, there is nothing to delete.
            let _ = delete_path(cloud, &cloud.admin, (service, &format!("{path}/{project}"))).await;
        }
    }
}
