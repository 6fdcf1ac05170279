//! What stands before the server: who may enter, what the server says of itself, what is counted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use outrank_api::status::Status;
use outrank_store::{Entry, Key};
use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::answer::Answer;
use crate::authentication::{
    Authenticator, HEALTH_CHECKS, Presented, ServiceAccountTokens, StaticTokens, User,
    certificate_user, self_subject_review, token_request, token_review,
};
use crate::authorization::impersonation::acting_user;
use crate::authorization::{Attributes, Rbac, RoleWrite, Target as Wanted, reviews};
use crate::certificates::{Certificates, Identity, ServerNames};
use crate::handler::{self, Call, Request};
use crate::metrics::Metrics;
use crate::request::RequestInfo;
use crate::self_description::SelfDescription;
use crate::served_types::ServedTypes;
use crate::server::{ApiServer, Target};
use crate::stored_object::StoredObject;

/// Roles and bindings, by what the store calls them.
const RBAC: [(&str, &str); 4] = [
    ("roles.rbac.authorization.k8s.io", "Role"),
    ("clusterroles.rbac.authorization.k8s.io", "ClusterRole"),
    ("rolebindings.rbac.authorization.k8s.io", "RoleBinding"),
    (
        "clusterrolebindings.rbac.authorization.k8s.io",
        "ClusterRoleBinding",
    ),
];

/// Programs of the control plane, and what the server is asked whether it runs.
const COMPONENTS: [&str; 3] = ["scheduler", "controller-manager", "etcd-0"];

/// What stands before a server.
pub struct Front {
    /// The server.
    pub server: ApiServer,
    authenticator: Authenticator,
    rbac: Arc<RwLock<Rbac>>,
    certificates: Certificates,
    description: Mutex<Option<(Arc<ServedTypes>, Arc<SelfDescription>)>>,
    metrics: Metrics,
    is_ready: AtomicBool,
    address: RwLock<String>,
}

impl Front {
    /// The front of a server. Keys and tokens are kept in a folder, or in memory if there is none.
    /// `names` are those under which clients call the server, beside `localhost`.
    ///
    /// # Errors
    ///
    /// If keys or tokens cannot be read or made.
    pub fn new(server: ApiServer, folder: Option<&Path>, names: &[String]) -> Result<Self> {
        let now_seconds = server.clock().now().div_euclid(1_000_000_000);
        let mut server_names = ServerNames::default();
        for name in names {
            server_names.add(name)?;
        }
        let (certificates, users, accounts) = match folder {
            None => (
                Certificates::in_memory(&server_names, now_seconds)?,
                StaticTokens::in_memory(),
                ServiceAccountTokens::in_memory()?,
            ),
            Some(folder) => {
                let keys = folder.join("keys");
                create_private_folder(&keys)?;
                (
                    Certificates::open(&keys, &server_names, now_seconds)?,
                    StaticTokens::open(&keys.join("users.json"))?,
                    ServiceAccountTokens::open(&keys.join("service-accounts.key"))?,
                )
            }
        };
        let rbac = Arc::new(RwLock::new(Rbac::default()));
        follow_rights(&server, &rbac);
        Ok(Self {
            server,
            authenticator: Authenticator::new(users, accounts),
            rbac,
            certificates,
            description: Mutex::new(None),
            metrics: Metrics::new(),
            is_ready: AtomicBool::new(false),
            address: RwLock::new("127.0.0.1:6443".to_owned()),
        })
    }

    /// The certificate by which clients know the server, PEM.
    pub fn certificate_authority(&self) -> &str {
        self.certificates.authority.certificate_pem()
    }

    /// How the server speaks TLS.
    ///
    /// # Errors
    ///
    /// If its certificate cannot be used.
    pub fn tls(&self) -> Result<Arc<ServerConfig>> {
        Ok(self.certificates.server_config()?)
    }

    /// A certificate by which a user is known, in these groups.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn client_certificate(&self, name: &str, groups: &[String]) -> Result<Identity> {
        let now_seconds = self.server.clock().now().div_euclid(1_000_000_000);
        Ok(self
            .certificates
            .authority
            .client(name, groups, now_seconds)?)
    }

    /// The tokens of users.
    pub fn users(&self) -> &StaticTokens {
        self.authenticator.users()
    }

    /// Says that everything runs, and where clients reach it.
    pub fn set_ready(&self, address: &str) {
        *self.address.write().unwrap_or_else(PoisonError::into_inner) = address.to_owned();
        self.is_ready.store(true, Ordering::SeqCst);
    }

    /// Who sends a request.
    ///
    /// # Errors
    ///
    /// 401 if the credentials are wrong, 403 if the sender may not act for whom it claims.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        certificate: Option<&[u8]>,
    ) -> Result<User, Status> {
        let of_certificate = certificate.map(|der| {
            let certificate = CertificateDer::from(der);
            certificate_user(&certificate)
        });
        let of_certificate = match of_certificate {
            Some(Ok(user)) => Some(user),
            // TLS has checked it; who is not named in it is nobody.
            Some(Err(_)) => return Err(Status::unauthorized()),
            None => None,
        };
        let authorization = headers.get(AUTHORIZATION);
        let presented = Presented {
            // What is no text is no token either, and wrong.
            authorization: authorization.map(|it| it.to_str().unwrap_or("Bearer ?")),
            certificate: of_certificate.as_ref(),
        };
        let now_seconds = self.now_seconds();
        let sender = self
            .authenticator
            .authenticate(&presented, now_seconds, &self.uids())?;
        acting_user(headers, sender, &self.read_rights())
    }

    /// Whether someone may do what he asks.
    ///
    /// # Errors
    ///
    /// 403 if not; 401 if nobody knows who he is.
    pub(crate) fn authorize(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        let path = info.path.as_str();
        let is_health = HEALTH_CHECKS
            .iter()
            .any(|it| path == *it || path.strip_prefix(*it).is_some_and(|it| it.starts_with('/')));
        if info.resource.is_none() && is_health && info.verb == "get" {
            return Ok(());
        }
        let target = match &info.resource {
            Some(resource) => Wanted::Resource {
                api_group: &resource.group,
                resource: &resource.plural,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
            },
            None => Wanted::Path(path),
        };
        let attributes = Attributes {
            user,
            verb: &info.verb,
            target,
        };
        let decision = self.read_rights().decide(&attributes);
        match decision.is_allowed() && !user.is_anonymous() {
            true => Ok(()),
            false => Err(attributes.forbidden(decision.reason())),
        }
    }

    /// Whether someone may give the rights that a role or binding gives.
    ///
    /// # Errors
    ///
    /// 403 if he has not got them himself.
    pub(crate) fn check_rights(
        &self,
        user: &User,
        target: &Target,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let resource = &target.served.resource;
        if resource.group != crate::authorization::RBAC_GROUP {
            return Ok(());
        }
        self.read_rights().check_write(&RoleWrite {
            user,
            resource: &resource.plural,
            namespace: &target.namespace,
            requested_name: &target.name,
            new,
            old,
        })
    }

    /// Answers what is asked by a review: a question that is not stored. Also components, which
    /// are none of anybody's business any more, but asked for.
    pub(crate) fn answer_review(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let resource = &call.target().served.resource;
        let kind = resource.kind.as_str();
        if kind == "ComponentStatus" {
            return self.components(call);
        }
        if kind == "Binding" {
            let read = call.read_as(resource)?;
            return Ok(call.bind_named_in(&read.value)?.warned(read.warnings));
        }
        let read = call.read_as(resource)?;
        let body = read.value;
        let (user, rights) = (call.user(), self.read_rights());
        let answer = match kind {
            "SelfSubjectAccessReview" => reviews::self_subject_access_review(body, user, &rights)?,
            "SubjectAccessReview" => reviews::subject_access_review(body, &rights)?,
            "LocalSubjectAccessReview" => {
                let namespace = call.target().namespace.as_str();
                reviews::local_subject_access_review(body, namespace, &rights)?
            }
            "SelfSubjectRulesReview" => reviews::self_subject_rules_review(&body, user, &rights)?,
            "SelfSubjectReview" => self_subject_review(user, self.now_seconds()),
            "TokenReview" => {
                token_review(body, &self.authenticator, self.now_seconds(), &self.uids())?
            }
            _ => return Err(handler::no_such_resource()),
        };
        Ok(Answer::value(201, &answer).warned(read.warnings))
    }

    /// Makes a token for a service account.
    pub(crate) fn request_token(&self, target: &Target, body: &Value) -> Result<Value, Status> {
        let account = self.server.get(target)?;
        let account = account.value.to_value(&target.served.stored);
        let stored = |kind: &str, name: &str| {
            let resource = match kind {
                "Pod" => "pods",
                "Secret" => "secrets",
                _ => return None,
            };
            let key = Key::new(resource, target.namespace.as_str(), name);
            let entry = self.server.store().get(&key)?;
            serde_json::from_slice(entry.value.json()).ok()
        };
        let accounts = self.authenticator.accounts();
        token_request(
            body.clone(),
            &account,
            accounts,
            self.now_seconds(),
            &stored,
        )
    }

    /// What the server says of itself, at a path that is none of a resource.
    pub(crate) fn about_itself(&self, request: &Request<'_>, path: &str) -> Answer {
        if !matches!(request.method, "GET" | "HEAD") {
            return Answer::status(&Status {
                code: 405,
                reason: Some(outrank_api::status::Reason::MethodNotAllowed),
                message: "the server does not allow this method on the requested resource"
                    .to_owned(),
                ..Status::bad_request("")
            });
        }
        let health = HEALTH_CHECKS
            .iter()
            .find_map(|it| Some((*it, path.strip_prefix(*it)?)));
        match health {
            Some((check, "" | "/")) => return self.health(check, request.query),
            Some((_, "/ping")) => return Answer::text(200, "ok"),
            Some((check, "/store")) => {
                return match self.store_trouble(check) {
                    None => Answer::text(200, "ok"),
                    Some(trouble) => Answer::text(500, format!("store failed: {trouble}\n")),
                };
            }
            _ => {}
        }
        if path == "/metrics" {
            let objects = self.server.types();
            return self.metrics.answer(&self.server, &objects);
        }
        let Request {
            query,
            accept,
            if_none_match,
            ..
        } = *request;
        let answer = self
            .description()
            .answer(path, query, accept, if_none_match);
        answer.unwrap_or_else(|| Answer::text(404, "404 page not found\n"))
    }

    /// Counts a request.
    pub(crate) fn measure(&self, verb: &str, code: u16, took: Duration) {
        self.metrics.request(verb, code, took);
    }

    fn health(&self, check: &str, query: &str) -> Answer {
        let has_started = self.is_ready.load(Ordering::SeqCst) || check == "/livez";
        let checks = [
            ("ping", None),
            ("store", self.store_trouble(check)),
            ("started", (!has_started).then_some("starting")),
        ];
        let is_well = checks.iter().all(|(_, trouble)| trouble.is_none());
        if is_well && !crate::request::Query::parse(query).is_true("verbose") {
            return Answer::text(200, "ok");
        }
        let line = |(name, trouble): &(&str, Option<&str>)| match trouble {
            None => format!("[+]{name} ok\n"),
            Some(trouble) => format!("[-]{name} failed: {trouble}\n"),
        };
        let lines: String = checks.iter().map(line).collect();
        let (code, verdict) = if is_well {
            (200, "passed")
        } else {
            (500, "failed")
        };
        let name = check.trim_start_matches('/');
        Answer::text(code, format!("{lines}{name} check {verdict}\n"))
    }

    /// Why the store takes no writes, without names of files: anybody may ask. `/livez` says whether
    /// it is of use to start the program anew, and against a full disk it is not.
    fn store_trouble(&self, check: &str) -> Option<&'static str> {
        let failure = self.server.store().failure()?;
        match failure.is_full {
            true if check == "/livez" => None,
            true => Some("the disk is full, nothing can be written"),
            false => Some("the disk has failed, nothing can be written until the next start"),
        }
    }

    fn components(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let component = |name: &str| {
            json!({"metadata": {"name": name},
                "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]})
        };
        let entries: Vec<Entry<StoredObject>> = COMPONENTS
            .iter()
            .map(|name| Entry {
                key: Key::new("componentstatuses", "", *name),
                value: StoredObject::new("componentstatuses", component(name)).into(),
                version: 0,
            })
            .collect();
        call.computed(entries)
    }

    fn description(&self) -> Arc<SelfDescription> {
        let types = self.server.types();
        let mut known = self
            .description
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((of, description)) = &*known
            && Arc::ptr_eq(of, &types)
        {
            return description.clone();
        }
        let address = self.address.read().unwrap_or_else(PoisonError::into_inner);
        let description = Arc::new(SelfDescription::new(&types, &address));
        *known = Some((types, description.clone()));
        description
    }

    fn read_rights(&self) -> std::sync::RwLockReadGuard<'_, Rbac> {
        self.rbac.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_seconds(&self) -> i64 {
        self.server.clock().now().div_euclid(1_000_000_000)
    }

    /// Looks up what tokens are bound to.
    fn uids(&self) -> impl Fn(&str, &str, &str) -> Option<String> {
        |resource: &str, namespace: &str, name: &str| {
            let entry = self
                .server
                .store()
                .get(&Key::new(resource, namespace, name))?;
            let value: Value = serde_json::from_slice(entry.value.json()).ok()?;
            Some(value.pointer("/metadata/uid")?.as_str()?.to_owned())
        }
    }
}

/// Keeps rights as roles and bindings say.
fn follow_rights(server: &ApiServer, rbac: &Arc<RwLock<Rbac>>) {
    let write = |rbac: &RwLock<Rbac>, store: &outrank_store::Store<StoredObject>, key: &Key| {
        let Some((_, kind)) = RBAC
            .iter()
            .find(|(resource, _)| **resource == *key.resource)
        else {
            return;
        };
        let mut rights = rbac.write().unwrap_or_else(PoisonError::into_inner);
        // What is there now counts, not what the news was: news may overtake each other.
        match store.get(key) {
            Some(entry) => {
                let value = serde_json::from_slice::<Value>(entry.value.json());
                let mut value = value.unwrap_or_default();
                value["kind"] = (*kind).into();
                value["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
                rights.set(&value);
            }
            None => rights.remove(kind, &key.namespace, &key.name),
        }
    };
    for (resource, _) in RBAC {
        for entry in crate::lookups::entries_within(server.store(), resource, "") {
            write(rbac, server.store(), &entry.key);
        }
    }
    let (rbac, store) = (rbac.clone(), server.store().clone());
    server.observe(Box::new(move |entry, _| write(&rbac, &store, &entry.key)));
}

/// A folder that only its owner may enter.
fn create_private_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
            .with_context(|| format!("cannot protect the folder {}", folder.display()))?;
    }
    Ok(())
}
