//! Who may do what: permissions, and the roles that bundle them.
//!
//! A key carries roles, a route demands one permission (see [`crate::routes`]). Deny by default: an unknown role
//! grants nothing.

use serde::Serialize;
use utoipa::ToSchema;

/// One thing a key may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub enum Permission {
    #[serde(rename = "definitions:read")]
    DefinitionsRead,
    #[serde(rename = "definitions:write")]
    DefinitionsWrite,
    #[serde(rename = "instances:read")]
    InstancesRead,
    #[serde(rename = "instances:start")]
    InstancesStart,
    #[serde(rename = "instances:signal")]
    InstancesSignal,
    #[serde(rename = "instances:order")]
    InstancesOrder,
    #[serde(rename = "tasks:read")]
    TasksRead,
    #[serde(rename = "tasks:act")]
    TasksAct,
    #[serde(rename = "dead-letters:read")]
    DeadLettersRead,
    #[serde(rename = "dead-letters:act")]
    DeadLettersAct,
    #[serde(rename = "batches:read")]
    BatchesRead,
    #[serde(rename = "batches:act")]
    BatchesAct,
    #[serde(rename = "errors:read")]
    ErrorsRead,
    #[serde(rename = "schedules:read")]
    SchedulesRead,
    #[serde(rename = "schedules:act")]
    SchedulesAct,
    #[serde(rename = "events:read")]
    EventsRead,
    #[serde(rename = "events:publish")]
    EventsPublish,
    #[serde(rename = "workers:read")]
    WorkersRead,
    #[serde(rename = "workers:write")]
    WorkersWrite,
    #[serde(rename = "workers:act")]
    WorkersAct,
    #[serde(rename = "dev:clock")]
    DevClock,
    #[serde(rename = "stream:read")]
    StreamRead,
    #[serde(rename = "keys:read")]
    KeysRead,
    #[serde(rename = "keys:write")]
    KeysWrite,
    #[serde(rename = "secrets:read")]
    SecretsRead,
    #[serde(rename = "secrets:write")]
    SecretsWrite,
    #[serde(rename = "tenants:read")]
    TenantsRead,
    #[serde(rename = "tenants:write")]
    TenantsWrite,
    #[serde(rename = "buses:read")]
    BusesRead,
    #[serde(rename = "buses:act")]
    BusesAct,
    #[serde(rename = "records:read")]
    RecordsRead,
    #[serde(rename = "records:write")]
    RecordsWrite,
    /// Every record of the tenant, whatever its grants, for a key that acts for nobody.
    #[serde(rename = "records:all")]
    RecordsAll,
    #[serde(rename = "groups:write")]
    GroupsWrite,
    #[serde(rename = "audit:read")]
    AuditRead,
    #[serde(rename = "metrics:read")]
    MetricsRead,
}

use Permission::*;

impl Permission {
    pub fn word(self) -> &'static str {
        match self {
            DefinitionsRead => "definitions:read",
            DefinitionsWrite => "definitions:write",
            InstancesRead => "instances:read",
            InstancesStart => "instances:start",
            InstancesSignal => "instances:signal",
            InstancesOrder => "instances:order",
            TasksRead => "tasks:read",
            TasksAct => "tasks:act",
            DeadLettersRead => "dead-letters:read",
            DeadLettersAct => "dead-letters:act",
            BatchesRead => "batches:read",
            BatchesAct => "batches:act",
            ErrorsRead => "errors:read",
            SchedulesRead => "schedules:read",
            SchedulesAct => "schedules:act",
            EventsRead => "events:read",
            EventsPublish => "events:publish",
            WorkersRead => "workers:read",
            WorkersWrite => "workers:write",
            WorkersAct => "workers:act",
            DevClock => "dev:clock",
            StreamRead => "stream:read",
            KeysRead => "keys:read",
            KeysWrite => "keys:write",
            SecretsRead => "secrets:read",
            SecretsWrite => "secrets:write",
            TenantsRead => "tenants:read",
            TenantsWrite => "tenants:write",
            BusesRead => "buses:read",
            BusesAct => "buses:act",
            RecordsRead => "records:read",
            RecordsWrite => "records:write",
            RecordsAll => "records:all",
            GroupsWrite => "groups:write",
            AuditRead => "audit:read",
            MetricsRead => "metrics:read",
        }
    }
}

/// A named bundle of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything inside its tenant.
    Admin,
    /// Instances, tasks and dead letters.
    Operator,
    /// Definitions, and starting instances.
    Developer,
    /// Tasks, signals and deliveries.
    Worker,
    /// Reads only.
    Viewer,
    /// Tenants, and keys of any tenant.
    Platform,
    /// Metrics of the whole node, nothing else.
    Monitor,
}

const READS: &[Permission] = &[
    DefinitionsRead,
    InstancesRead,
    TasksRead,
    DeadLettersRead,
    BatchesRead,
    ErrorsRead,
    SchedulesRead,
    EventsRead,
    WorkersRead,
    StreamRead,
    RecordsRead,
];

impl Role {
    pub const ALL: &[Role] = &[
        Role::Admin,
        Role::Operator,
        Role::Developer,
        Role::Worker,
        Role::Viewer,
        Role::Platform,
        Role::Monitor,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Developer => "developer",
            Role::Worker => "worker",
            Role::Viewer => "viewer",
            Role::Platform => "platform",
            Role::Monitor => "monitor",
        }
    }

    pub fn by_word(word: &str) -> Option<Role> {
        Role::ALL.iter().copied().find(|role| role.word() == word)
    }

    pub fn allows(self, permission: Permission) -> bool {
        match self {
            Role::Admin => {
                !matches!(permission, TenantsRead | TenantsWrite | BusesRead | BusesAct | MetricsRead)
            }
            Role::Operator => {
                READS.contains(&permission)
                    || matches!(
                        permission,
                        InstancesStart
                            | InstancesSignal
                            | InstancesOrder
                            | TasksAct
                            | DeadLettersAct
                            | BatchesAct
                            | SchedulesAct
                            | EventsPublish
                            | WorkersAct
                            | RecordsWrite
                            | RecordsAll
                    )
            }
            Role::Developer => {
                READS.contains(&permission)
                    || matches!(
                        permission,
                        DefinitionsWrite
                            | InstancesStart
                            | SecretsRead
                            | EventsPublish
                            | WorkersWrite
                            | WorkersAct
                            | RecordsWrite
                            | DevClock
                    )
            }
            Role::Worker => {
                matches!(
                    permission,
                    InstancesRead
                        | InstancesSignal
                        | TasksRead
                        | TasksAct
                        | EventsPublish
                        | WorkersRead
                        | WorkersAct
                        | RecordsRead
                        | RecordsWrite
                        | StreamRead
                )
            }
            Role::Viewer => READS.contains(&permission),
            Role::Platform => {
                matches!(
                    permission,
                    TenantsRead
                        | TenantsWrite
                        | KeysRead
                        | KeysWrite
                        | BusesRead
                        | BusesAct
                        | AuditRead
                        | MetricsRead
                )
            }
            Role::Monitor => permission == MetricsRead,
        }
    }

    /// True if the role reaches beyond its own tenant: only such a key may grant it.
    pub fn is_wide(self) -> bool {
        matches!(self, Role::Platform | Role::Monitor)
    }
}

/// What a route demands of whoever calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No key needed. Only for answers that hold nothing of any tenant.
    Public,
    /// Any valid key.
    Anyone,
    Needs(Permission),
}

impl Access {
    /// True if somebody with these roles may pass.
    pub fn admits(self, roles: &[Role]) -> bool {
        match self {
            Access::Public | Access::Anyone => true,
            Access::Needs(permission) => roles.iter().any(|role| role.allows(permission)),
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Access::Public => "public",
            Access::Anyone => "any key",
            Access::Needs(permission) => permission.word(),
        }
    }
}
