//! Makes projects, users, quotas and flavors; [`super::resources`] makes what is in the projects.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use http::Method;
use serde_json::{Value as Json, json};

use super::cloud::{Caller, CloudService, Problem, text};
use super::keystone::KeystoneIssuer;
use super::maker::{Maker, Tenant, each, escaped};
use super::resources;
use iteration::credentials::CurrentCredentials;
use iteration::crowd::{Crowd, Member};
use plan::contexts::{Contexts, Flavor, UserChoice, Users};
use plan::deployment::Auth;
use plan::keystone::{self, Identity, KeystoneReference, Scope};
use text::template::Value;

/// A token that must be renewed while the load runs.
pub(super) struct RenewableToken {
    pub(super) credentials: Arc<CurrentCredentials>,
    pub(super) auth: Auth,
    pub(super) valid_for: Option<Duration>,
}

/// A user that was made.
struct User {
    id: String,
    name: String,
    domain_id: String,
    /// The index of its project.
    tenant: usize,
    caller: Caller,
    renewed: RenewableToken,
}

/// What was made for some workloads.
pub(super) struct ProvisionedCrowd {
    pub(super) crowd: Crowd,
    pub(super) renewed: Vec<RenewableToken>,
}

impl Maker<'_> {
    async fn admin(
        &self,
        method: Method,
        (service, path): (CloudService, &str),
        body: Option<&Json>,
    ) -> Result<Json, Problem> {
        self.cloud.call(&self.cloud.admin, method, (service, path), body).await
    }

    /// Makes all of a workload's contexts. `first`: the number of its first user.
    pub(super) async fn make(&self, contexts: &Contexts, first: u32) -> Result<ProvisionedCrowd, Problem> {
        let (tenants, users) = match &contexts.users {
            Some(wanted) => self.users(wanted, contexts.workers).await?,
            None => (vec![self.own_project()?], Vec::new()),
        };
        for (service, limits) in &contexts.quotas {
            let body = json!(limits);
            each(&tenants, contexts.workers, |tenant| self.quota(service, tenant, &body)).await?;
        }
        let flavors = each(&contexts.flavors, contexts.workers, |flavor| self.flavor(flavor)).await?;
        let content = match &contexts.images {
            Some(images) => resources::content(&images.source, self.cloud.client()).await?,
            None => bytes::Bytes::new(),
        };
        let ranges = AtomicU32::new(0);
        let resources =
            each(&tenants, contexts.workers, |tenant| self.resources(contexts, tenant, &content, &ranges))
                .await?;
        let by_name: serde_json::Map<String, Json> = contexts
            .flavors
            .iter()
            .zip(&flavors)
            .map(|(written, made)| (written.name.clone(), made["id"].clone()))
            .collect();
        let shared =
            Value::from_serialize(json!({ "prefix": self.prefix, "flavors": flavors, "flavor": by_name }));
        let tenants: Vec<(&Tenant, Value)> =
            tenants.iter().zip(resources.iter().map(Value::from_serialize)).collect();
        let choice = contexts.users.as_ref().map_or(UserChoice::RoundRobin, |users| users.choice);
        let (mut members, mut renewed) = (Vec::new(), Vec::new());
        for user in users {
            let Some((tenant, of_tenant)) = tenants.get(user.tenant) else { continue };
            members.push(self.member(&user, tenant, (&shared, of_tenant)));
            renewed.push(user.renewed);
        }
        let of_first = tenants.first().map(|(_, value)| value.clone()).unwrap_or_default();
        let context = of_iteration(&shared, &of_first, None);
        Ok(ProvisionedCrowd { crowd: Crowd { first, members, choice, context }, renewed })
    }

    /// The deployment's own project, in which things are made if no users are.
    fn own_project(&self) -> Result<Tenant, Problem> {
        let caller = self.cloud.admin.clone();
        let id = caller.project_id.clone();
        let none =
            "contexts without `users` need a token for a project: add `project_name` to the deployment";
        let id = id.ok_or_else(|| Problem::new(none))?;
        Ok(Tenant { name: String::new(), id, caller })
    }

    fn member(&self, user: &User, tenant: &Tenant, (shared, of_tenant): (&Value, &Value)) -> Member {
        let of_user = Value::from_serialize(json!({
            "id": user.id,
            "name": user.name,
            "password": self.password.expose(),
            "project_id": tenant.id,
            "project_name": tenant.name,
            "domain_id": user.domain_id,
            "domain_name": user.renewed.domain_name(),
        }));
        Member {
            credentials: Arc::clone(&user.caller.credentials),
            project_id: tenant.id.clone(),
            context: of_iteration(shared, of_tenant, Some(&of_user)),
            user: of_user,
        }
    }

    /// The projects, and the users: the first ones of all projects, then the second ones.
    async fn users(&self, wanted: &Users, workers: usize) -> Result<(Vec<Tenant>, Vec<User>), Problem> {
        let project_domain = self.domain(&wanted.project_domain).await?;
        let user_domain = self.domain(&wanted.user_domain).await?;
        let role = self.cloud.member_role().await?;
        let projects = each(0..wanted.tenants, workers, |_| self.project(&project_domain.0)).await?;
        let places = (0..wanted.users_per_tenant).flat_map(|_| 0..projects.len());
        let users = each(places, workers, |tenant| {
            let (id, _) = &projects[tenant];
            self.user(&user_domain, (tenant, id), &role)
        });
        let users = users.await?;
        let callers = users.iter().take(projects.len()).map(|user| user.caller.clone());
        let tenants = projects.iter().zip(callers).map(|((id, name), caller)| Tenant {
            id: id.clone(),
            name: name.clone(),
            caller,
        });
        Ok((tenants.collect(), users))
    }

    /// Id and name of a domain that is given by either.
    async fn domain(&self, given: &str) -> Result<(String, String), Problem> {
        let escaped = escaped(given);
        let by_id =
            self.admin(Method::GET, (CloudService::Keystone, &format!("/domains/{escaped}")), None).await;
        let found = match by_id {
            Ok(answer) => Ok(answer["domain"].clone()),
            Err(problem) if problem.is_absence() => {
                let path = format!("/domains?name={escaped}");
                let answer = self.admin(Method::GET, (CloudService::Keystone, &path), None).await?;
                Ok(answer["domains"][0].clone())
            }
            Err(problem) => Err(problem),
        }?;
        if found.is_null() {
            return Err(Problem::new(format!("the cloud has no domain `{given}`")));
        }
        Ok((text(&found, "/id")?, text(&found, "/name")?))
    }

    async fn project(&self, domain: &str) -> Result<(String, String), Problem> {
        let name = self.name("project");
        let body = json!({ "project": { "name": name, "domain_id": domain, "enabled": true } });
        let answer = self.admin(Method::POST, (CloudService::Keystone, "/projects"), Some(&body)).await?;
        Ok((text(&answer, "/project/id")?, name))
    }

    async fn user(
        &self,
        (domain, domain_name): &(String, String),
        (tenant, project): (usize, &str),
        role: &str,
    ) -> Result<User, Problem> {
        let name = self.name("user");
        let body = json!({ "user": { "name": name, "password": self.password.expose(), "domain_id": domain,
            "default_project_id": project, "enabled": true } });
        let answer = self.admin(Method::POST, (CloudService::Keystone, "/users"), Some(&body)).await?;
        let id = text(&answer, "/user/id")?;
        let path = format!("/projects/{project}/users/{id}/roles/{role}");
        self.admin(Method::PUT, (CloudService::Keystone, &path), None).await?;
        let login = keystone::Credentials {
            auth_url: self.cloud.auth_url().clone(),
            identity: Identity::Password {
                user: KeystoneReference::Name {
                    name: name.clone(),
                    domain: keystone::Domain::Name(domain_name.clone()),
                },
                password: self.password.clone(),
            },
            scope: Scope::Project(KeystoneReference::Id(project.to_owned())),
        };
        let auth = Auth::Keystone(login);
        let established =
            CurrentCredentials::establish(&auth, self.cloud.client(), &KeystoneIssuer, None).await;
        let (credentials, valid_for) = established.map_err(|error| Problem::new(error.to_string()))?;
        let credentials = Arc::new(credentials);
        let caller = Caller { credentials: Arc::clone(&credentials), project_id: Some(project.to_owned()) };
        let renewed = RenewableToken { credentials, auth, valid_for };
        Ok(User { id, name, domain_id: domain.clone(), tenant, caller, renewed })
    }

    async fn quota(&self, service: &str, tenant: &Tenant, limits: &Json) -> Result<(), Problem> {
        let id = &tenant.id;
        let (service, path, body) = match service {
            "compute" => (CloudService::Nova, format!("/os-quota-sets/{id}"), json!({ "quota_set": limits })),
            "network" => (CloudService::Neutron, format!("/quotas/{id}"), json!({ "quota": limits })),
            _ => (CloudService::Cinder, format!("/os-quota-sets/{id}"), json!({ "quota_set": limits })),
        };
        self.admin(Method::PUT, (service, &path), Some(&body)).await.map(drop)
    }

    async fn flavor(&self, flavor: &Flavor) -> Result<Json, Problem> {
        // Another workload may have one of the same name.
        let name = self.name(&flavor.name);
        let body = json!({ "flavor": {
            "name": name, "ram": flavor.ram, "vcpus": flavor.vcpus.unwrap_or(1), "disk": flavor.disk.unwrap_or(0),
            "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral.unwrap_or(0), "swap": flavor.swap.unwrap_or(0),
        } });
        let answer = self.admin(Method::POST, (CloudService::Nova, "/flavors"), Some(&body)).await?;
        let id = text(&answer, "/flavor/id")?;
        if let Some(specifications) = flavor.extra_specs.as_ref().filter(|specs| !specs.is_empty()) {
            let body = json!({ "extra_specs": specifications });
            let path = format!("/flavors/{id}/os-extra_specs");
            self.admin(Method::POST, (CloudService::Nova, &path), Some(&body)).await?;
        }
        Ok(json!({ "id": id, "name": name }))
    }
}

impl RenewableToken {
    /// The name of the user's domain.
    fn domain_name(&self) -> Option<&str> {
        let Auth::Keystone(login) = &self.auth else { return None };
        login.user().and_then(KeystoneReference::domain_name)
    }
}

/// The variable `context` of an iteration.
fn of_iteration(shared: &Value, tenant: &Value, user: Option<&Value>) -> Value {
    let of = |key: &str| shared.get_attr(key).unwrap_or_default();
    let mut pairs = vec![
        ("prefix", of("prefix")),
        ("flavors", of("flavors")),
        ("flavor", of("flavor")),
        ("tenant", tenant.clone()),
    ];
    pairs.extend(user.map(|user| ("user", user.clone())));
    pairs.into_iter().collect()
}
