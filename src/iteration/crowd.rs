//! The users of a cloud that iterations are, each with a token of its own.
//!
//! They are made before the load and do not change while it runs, but for their tokens. A scenario without `contexts` has
//! none: then all requests carry the deployment's own credentials, and nothing here costs an iteration anything.

use std::sync::Arc;

use base::ids::mix;
use plan::contexts::{CONTEXT, USER, UserChoice};
use plan::probe::PROBE;
use text::template::{Value, Variables};

use super::credentials::CurrentCredentials;

/// Whose credentials a request carries.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    /// 0 for the deployment, or the number of the user.
    pub(super) number: u32,
    pub(super) credentials: &'a CurrentCredentials,
    /// The id of the deployment's project, and of the user's, which replaces it in the URLs of the catalog.
    projects: Option<(&'a str, &'a str)>,
}

impl<'a> Sender<'a> {
    /// The deployment itself.
    #[inline]
    pub(super) fn deployment(credentials: &'a CurrentCredentials) -> Self {
        Self { number: 0, credentials, projects: None }
    }

    /// The path of a base URL for this sender's project; `None` if it is that of all.
    pub(super) fn prefix_of(&self, prefix: &str) -> Option<String> {
        let (own, theirs) = self.projects?;
        prefix.contains(own).then(|| prefix.replace(own, theirs))
    }
}

/// A user.
pub struct Member {
    /// Its token.
    pub credentials: Arc<CurrentCredentials>,
    pub project_id: String,
    /// What its iterations see as `context`.
    pub context: Value,
    /// What they see as `user`.
    pub user: Value,
}

/// The users of some workloads.
pub struct Crowd {
    /// The number of the first user. All users of a run have different numbers, from 1.
    pub first: u32,
    /// The users: the first ones of all projects, then the second ones.
    pub members: Vec<Member>,
    /// How an iteration takes one.
    pub choice: UserChoice,
    /// What iterations see as `context` if there are no users.
    pub context: Value,
}

impl Crowd {
    fn index(&self, seed: u64, workload: u16, number: u64) -> usize {
        let count = self.members.len().max(1) as u64;
        let drawn = match self.choice {
            UserChoice::RoundRobin => number,
            UserChoice::Random => mix(mix(seed.wrapping_add(2)) ^ u64::from(workload)) ^ mix(number),
        };
        usize::try_from(drawn % count).unwrap_or(0)
    }
}

/// The users of all workloads.
#[derive(Clone)]
pub struct Crowds {
    /// Of each workload, with its name.
    by_workload: Vec<(Arc<str>, Option<Arc<Crowd>>)>,
    /// The id of the deployment's project.
    project_id: Option<Arc<str>>,
    names: [Arc<str>; 2],
}

impl Default for Crowds {
    fn default() -> Self {
        Self::new(Vec::new(), None)
    }
}

impl Crowds {
    /// The users of each workload, in the order of the workloads. `project_id`: of the deployment's token.
    #[must_use]
    pub fn new(by_workload: Vec<(Arc<str>, Option<Arc<Crowd>>)>, project_id: Option<&str>) -> Self {
        Self { by_workload, project_id: project_id.map(Arc::from), names: [CONTEXT, USER].map(Arc::from) }
    }

    fn of(&self, workload: u16, name: &str) -> Option<&Crowd> {
        let found = match workload {
            PROBE => self.by_workload.iter().find(|(other, _)| **other == *name),
            number => self.by_workload.get(usize::from(number)),
        };
        found.and_then(|(_, crowd)| crowd.as_deref())
    }

    /// Who iteration `number` of a workload is; its variables say so, too.
    #[inline]
    pub(super) fn take<'a>(
        &'a self,
        seed: u64,
        (workload, name): (u16, &str),
        number: u64,
        (deployment, variables): (&'a CurrentCredentials, &mut Variables),
    ) -> Sender<'a> {
        let Some(crowd) = self.of(workload, name) else { return Sender::deployment(deployment) };
        let [context, user] = &self.names;
        let index = crowd.index(seed, workload, number);
        let Some(member) = crowd.members.get(index) else {
            variables.set(context, crowd.context.clone());
            return Sender::deployment(deployment);
        };
        variables.set(context, member.context.clone());
        variables.set(user, member.user.clone());
        Sender {
            number: crowd.first.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)),
            credentials: &member.credentials,
            projects: self.project_id.as_deref().map(|own| (own, member.project_id.as_str())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(members: usize, choice: UserChoice) -> Crowd {
        let member = |number: usize| Member {
            credentials: Arc::new(CurrentCredentials::none()),
            project_id: format!("project{}", number % 2),
            context: Value::from("c"),
            user: Value::from(number as u64),
        };
        Crowd { first: 1, members: (0..members).map(member).collect(), choice, context: Value::from("none") }
    }

    fn users(crowd: &Crowd, seed: u64, workload: u16) -> Vec<usize> {
        (0..400).map(|number| crowd.index(seed, workload, number)).collect()
    }

    #[test]
    fn users_are_taken_in_turn_or_at_random_but_the_same_for_a_seed() {
        let in_turn = users(&crowd(3, UserChoice::RoundRobin), 7, 0);
        assert_eq!(in_turn[..7], [0, 1, 2, 0, 1, 2, 0]);
        let random = crowd(4, UserChoice::Random);
        let first = users(&random, 7, 0);
        assert_eq!(first, users(&random, 7, 0));
        assert!(first != users(&random, 8, 0) && first != users(&random, 7, 1));
        for user in 0..4 {
            let times = first.iter().filter(|taken| **taken == user).count();
            assert!((50..150).contains(&times), "{user} was taken {times} times");
        }
        assert_eq!(users(&crowd(0, UserChoice::Random), 7, 0)[..3], [0, 0, 0]);
    }

    #[test]
    fn iterations_know_who_they_are_and_where_their_project_is() {
        let (own, three) = (CurrentCredentials::none(), Arc::new(crowd(3, UserChoice::RoundRobin)));
        let empty = Arc::new(crowd(0, UserChoice::RoundRobin));
        let by_workload =
            vec![(Arc::from("a"), Some(three)), (Arc::from("b"), None), (Arc::from("c"), Some(empty))];
        let crowds = Crowds::new(by_workload, Some("admins"));
        // Workload and iteration; number of the user, path of a URL, `user` and `context`.
        for ((workload, name), number, expected) in [
            ((0, "a"), 1, (2, Some("/v3/project1"), Some("1"), Some("c"))),
            ((0, "a"), 3, (1, Some("/v3/project0"), Some("0"), Some("c"))),
            ((1, "b"), 0, (0, None, None, None)),
            ((2, "c"), 0, (0, None, None, Some("none"))),
            ((PROBE, "a"), 4, (2, Some("/v3/project1"), Some("1"), Some("c"))),
            ((9, "z"), 0, (0, None, None, None)),
        ] {
            let mut variables = Variables::new(Arc::default());
            let sender = crowds.take(7, (workload, name), number, (&own, &mut variables));
            let shown = |name: &str| variables.get(name).map(|value| value.to_string());
            let prefix = sender.prefix_of("/v3/admins");
            let found = (sender.number, prefix.as_deref(), shown(USER), shown(CONTEXT));
            let (number, prefix, user, context) = expected;
            let expected = (number, prefix, user.map(str::to_owned), context.map(str::to_owned));
            assert_eq!(found, expected, "{name} {number}");
            assert_eq!(sender.prefix_of("/v2.1"), None);
        }
    }
}
