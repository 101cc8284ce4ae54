//! From the wire to a checked wish: every field is honoured or refused, none is passed over.

use crate::create::Creation;
use crate::error::ApiError;
use crate::seconds;
use api::ErrorKind;
use api::e2b::{NetworkConfig, NewSandbox};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Metadata keys that Warren reads.
const RESERVED: &str = "warren.";
/// Label that groups sandboxes of one run.
pub(super) const KEY_JOB: &str = "warren.job";
const KEY_ISOLATION: &str = "warren.isolation";
const KEY_PLAN: &str = "warren.plan";
/// All destinations: denying it is to have no internet.
const EVERYWHERE: &str = "0.0.0.0/0";

/// Checks a create of either generation.
pub(super) fn creation(
    new: NewSandbox,
    timeout_default: u64,
    timeout_max: Duration,
    kind: &str,
) -> Result<Creation, ApiError> {
    unsupported(&new)?;
    let template = new.template_id.parse().map_err(|e| {
        let text = crate::error::chain(&e);
        ApiError::invalid(format!("templateID: {text}"))
    })?;
    let timeout = seconds::parse_or(
        "timeout",
        new.timeout.as_ref(),
        timeout_default,
        timeout_max,
    )?;
    let metadata = new.metadata.unwrap_or_default();
    reserved(&metadata, kind)?;
    let env = new.env_vars.unwrap_or_default();
    environment(&env)?;
    Ok(Creation {
        template,
        timeout,
        metadata,
        env,
        internet: internet(new.allow_internet_access, new.network.as_ref())?,
    })
}

fn unsupported(new: &NewSandbox) -> Result<(), ApiError> {
    let auto_pause = new.auto_pause == Some(true);
    let given = |value: &Option<Value>| value.as_ref().is_some_and(|v| !is_empty(v));
    if new.auto_pause_memory == Some(false) && !auto_pause {
        return Err(ApiError::invalid(
            "autoPauseMemory: false needs autoPause: true",
        ));
    }
    let refused = [
        (auto_pause, "autoPause: pause"),
        (
            new.auto_resume.is_some_and(|r| r.enabled),
            "autoResume: resume",
        ),
        (given(&new.mcp), "mcp: an MCP gateway"),
        (given(&new.iam), "iam: identity tokens"),
        (
            new.volume_mounts.as_ref().is_some_and(|v| !v.is_empty()),
            "volumeMounts: volumes",
        ),
    ];
    match refused.into_iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(ApiError::unimplemented(what)),
        None => Ok(()),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        _ => false,
    }
}

fn reserved(metadata: &BTreeMap<String, String>, kind: &str) -> Result<(), ApiError> {
    for (key, value) in metadata.iter().filter(|(k, _)| k.starts_with(RESERVED)) {
        match key.as_str() {
            KEY_JOB => {}
            KEY_ISOLATION if value == kind => {}
            KEY_ISOLATION
                if matches!(
                    value.as_str(),
                    "function" | "container" | "gvisor" | "microvm" | "vm"
                ) =>
            {
                return Err(ApiError::unimplemented(format!("{KEY_ISOLATION}={value}")));
            }
            KEY_PLAN => return Err(ApiError::unimplemented(KEY_PLAN)),
            _ => {
                let text = format!(
                    "metadata {key}={value:?}: keys under {RESERVED} are reserved; known are \
                     {KEY_ISOLATION} (container), {KEY_PLAN}, {KEY_JOB}"
                );
                return Err(ApiError::invalid(text));
            }
        }
    }
    Ok(())
}

fn environment(env: &BTreeMap<String, String>) -> Result<(), ApiError> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            let text = format!("envVars: {name:?} cannot be the name of a variable");
            return Err(ApiError::invalid(text));
        }
        if value.contains('\0') {
            let text = format!("envVars: the value of {name} holds a zero byte");
            return Err(ApiError::invalid(text));
        }
    }
    Ok(())
}

fn internet(allow: Option<bool>, rules: Option<&NetworkConfig>) -> Result<Option<bool>, ApiError> {
    let Some(rules) = rules else {
        return Ok(allow);
    };
    if rules.allow_public_traffic == Some(false) {
        let what = "network.allowPublicTraffic: private ports";
        return Err(ApiError::unimplemented(what));
    }
    if let Some((name, _)) = rules.other.iter().find(|(_, v)| !is_empty(v)) {
        return Err(ApiError::unimplemented(format!("network.{name}")));
    }
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (allow_out, deny_out) = (list(&rules.allow_out), list(&rules.deny_out));
    match (allow_out.is_empty(), deny_out.as_slice()) {
        (true, []) => Ok(allow),
        (true, [all]) if all == EVERYWHERE && allow == Some(true) => {
            let text = "allow_internet_access: true contradicts network.denyOut 0.0.0.0/0";
            Err(ApiError::new(ErrorKind::Invalid, text))
        }
        (true, [all]) if all == EVERYWHERE => Ok(Some(false)),
        (true, _) => Err(ApiError::unimplemented("network.denyOut: network rules")),
        (false, _) => Err(ApiError::unimplemented("network.allowOut: network rules")),
    }
}
