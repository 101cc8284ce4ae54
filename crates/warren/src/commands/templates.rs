//! `warren template ls`, `inspect`, `rm`.

use super::segment;
use crate::cli::{Global, TemplateCommand};
use crate::client::Client;
use crate::output::{self, Format};
use anyhow::Result;
use api::warren::{TemplateInfo, TemplateLayer};
use http::Method;

const ROUTE: &str = "/warren/v1/templates";
const DEFAULT_TAG: &str = ":default";

pub(super) async fn run(client: &Client, global: &Global, command: TemplateCommand) -> Result<()> {
    match command {
        TemplateCommand::Ls => ls(client, global).await,
        TemplateCommand::Inspect(args) => inspect(client, global, &args.name).await,
        TemplateCommand::Rm(args) => rm(client, global, &args.name).await,
    }
}

async fn ls(client: &Client, global: &Global) -> Result<()> {
    let templates: Vec<TemplateInfo> = client.get(ROUTE).await?;
    if global.quiet {
        return templates.iter().flat_map(names).try_for_each(output::line);
    }
    match global.output {
        Format::Json => output::json(&templates),
        Format::Table => {
            let heading = ["NAME", "ID", "LAYERS", "SIZE", "CPU", "MEMORY", "SOURCE"];
            output::line(output::table(heading, templates.iter().map(row).collect()))
        }
    }
}

/// What a user would write to mean it: the tag that is meant without one is left out.
fn names(template: &TemplateInfo) -> Vec<&str> {
    let short = |name: &'_ String| name.strip_suffix(DEFAULT_TAG).map_or(name.len(), str::len);
    let names = template.names.iter().map(|name| &name[..short(name)]);
    names.collect()
}

fn row(template: &TemplateInfo) -> [String; 7] {
    [
        names(template).join(","),
        template.template_id.clone(),
        template.layers.len().to_string(),
        mebibytes(&template.layers),
        template.cpu_count.to_string(),
        format!("{} MiB", template.memory_mb),
        template.source.clone().unwrap_or_default(),
    ]
}

fn mebibytes(layers: &[TemplateLayer]) -> String {
    let bytes: u64 = layers.iter().map(|l| l.size_bytes).sum();
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

async fn inspect(client: &Client, global: &Global, name: &str) -> Result<()> {
    let template: TemplateInfo = client.get(&format!("{ROUTE}/{}", segment(name))).await?;
    if global.quiet {
        return output::line(&template.template_id);
    }
    if global.output == Format::Json {
        return output::json(&template);
    }
    let env = template.env.iter().map(|(k, v)| format!("{k}={v}"));
    let mut rows = vec![
        ["id".to_owned(), template.template_id.clone()],
        ["names".to_owned(), names(&template).join(", ")],
        [
            "source".to_owned(),
            template.source.clone().unwrap_or_default(),
        ],
        ["user".to_owned(), template.user.clone().unwrap_or_default()],
        [
            "workdir".to_owned(),
            template.workdir.clone().unwrap_or_default(),
        ],
        ["cpu".to_owned(), template.cpu_count.to_string()],
        ["memory".to_owned(), format!("{} MiB", template.memory_mb)],
        ["disk".to_owned(), format!("{} MiB", template.disk_size_mb)],
        ["updated".to_owned(), template.updated_at.to_string()],
    ];
    rows.extend(env.map(|pair| ["env".to_owned(), pair]));
    rows.extend(template.layers.iter().map(|layer| {
        let size = mebibytes(std::slice::from_ref(layer));
        ["layer".to_owned(), format!("{} {size}", layer.digest)]
    }));
    rows.retain(|[_, value]| !value.is_empty());
    output::line(output::pairs(rows))
}

async fn rm(client: &Client, global: &Global, name: &str) -> Result<()> {
    let path = format!("{ROUTE}/{}", segment(name));
    client.control(Method::DELETE, &path, None::<&()>).await?;
    if global.quiet {
        Ok(())
    } else {
        output::line(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_whole_mebibytes() {
        let layer = |size_bytes| TemplateLayer {
            digest: String::new(),
            size_bytes,
        };
        assert_eq!(mebibytes(&[]), "0 MiB");
        assert_eq!(mebibytes(&[layer(1), layer(1 << 20)]), "2 MiB");
    }

    #[test]
    fn the_default_tag_is_left_out_of_names() {
        let json = serde_json::json!({
            "templateID": "t", "names": ["py:default", "py:v1"], "layers": [], "cpuCount": 1, "memoryMB": 1,
            "diskSizeMB": 1, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
        });
        let template: TemplateInfo = serde_json::from_value(json).expect("a template");
        assert_eq!(names(&template), ["py", "py:v1"]);
    }
}
