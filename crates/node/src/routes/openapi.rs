//! `/openapi.json`: the document of all built routes, made from the wire shapes themselves.

use api::ErrorBody;
use api::e2b::{
    ConnectSandbox, ConnectSandboxV1, ListedSandbox, NewSandbox, Refresh, Sandbox, SandboxDetail,
    SetTimeout, Template, TemplateAlias, TemplateWithBuilds,
};
use api::warren::{NewAlias, PullEvent, PullRequest, SandboxInspect, TemplateInfo, Version};
use axum::response::{IntoResponse, Response};
use http::header;
use std::sync::OnceLock;
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn, PathsBuilder};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ArrayBuilder, ComponentsBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, HttpMethod, InfoBuilder, ObjectBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr,
    Required,
};
use utoipa::{PartialSchema, ToSchema};

use HttpMethod::{Delete, Get, Post};

const JSON: &str = "application/json";
const KEY_SCHEME: &str = "ApiKey";

/// Places for the schema of one shape and of those it uses.
type Schemas = Vec<(String, RefOr<Schema>)>;

/// A body: its schema in the document, and how to add its components.
#[derive(Clone)]
struct Shape {
    schema: RefOr<Schema>,
    add: fn(&mut Schemas),
    media: &'static str,
}

fn one<T: ToSchema>() -> Option<Shape> {
    fn add<T: ToSchema>(schemas: &mut Schemas) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
    Some(Shape {
        schema: Ref::from_schema_name(T::name()).into(),
        add: add::<T>,
        media: JSON,
    })
}

fn many<T: ToSchema>() -> Option<Shape> {
    one::<T>().map(|shape| Shape {
        schema: ArrayBuilder::new().items(shape.schema).build().into(),
        ..shape
    })
}

fn lines<T: ToSchema>() -> Option<Shape> {
    one::<T>().map(|shape| Shape {
        media: "application/x-ndjson",
        ..shape
    })
}

/// One operation.
struct Row(
    HttpMethod,
    &'static str,
    &'static str,
    Option<Shape>,
    u16,
    Option<Shape>,
);

const OPEN: [&str; 5] = ["/health", "/livez", "/readyz", "/metrics", "/openapi.json"];

fn rows() -> Vec<Row> {
    let mut rows = sandbox_rows();
    rows.extend(life_rows());
    rows.extend(template_rows());
    rows.extend(vec![
        Row(
            Get,
            "/warren/v1/version",
            "Version of the node",
            None,
            200,
            one::<Version>(),
        ),
        Row(
            Get,
            "/warren/v1/host",
            "What the machine can do",
            None,
            200,
            None,
        ),
        Row(Get, "/health", "Whether the node lives", None, 204, None),
        Row(Get, "/livez", "Whether the node lives", None, 204, None),
        Row(
            Get,
            "/readyz",
            "Whether the node takes work",
            None,
            204,
            None,
        ),
        Row(Get, "/metrics", "Prometheus metrics", None, 200, None),
        Row(Get, "/openapi.json", "This document", None, 200, None),
    ]);
    rows
}

fn sandbox_rows() -> Vec<Row> {
    let (new, sandbox) = (one::<NewSandbox>, one::<Sandbox>);
    let (list, all) = (many::<ListedSandbox>, "/v2/sandboxes");
    let (v1, v2) = (
        "Create, lives 15 s by default",
        "Create, lives 300 s by default",
    );
    let (one_sandbox, detail) = ("/sandboxes/{id}", one::<SandboxDetail>());
    vec![
        Row(Post, "/sandboxes", v1, new(), 201, sandbox()),
        Row(Post, all, v2, new(), 201, sandbox()),
        Row(Get, "/sandboxes", "List running", None, 200, list()),
        Row(Get, all, "List by filter, in pages", None, 200, list()),
        Row(Get, one_sandbox, "Inspect", None, 200, detail),
        Row(Delete, one_sandbox, "Kill", None, 204, None),
    ]
}

fn life_rows() -> Vec<Row> {
    let (v1, v2) = ("/sandboxes/{id}/connect", "/v2/sandboxes/{id}/connect");
    let (old, new) = (one::<ConnectSandboxV1>(), one::<ConnectSandbox>());
    let (connect, sandbox) = ("Extend and get its token", one::<Sandbox>);
    let (timeout, refresh) = ("/sandboxes/{id}/timeout", "/sandboxes/{id}/refreshes");
    let (own, inspect) = ("/warren/v1/sandboxes/{id}", one::<SandboxInspect>());
    vec![
        Row(Post, v1, connect, old, 200, sandbox()),
        Row(Post, v2, connect, new, 200, sandbox()),
        Row(Post, timeout, "Set its end", one::<SetTimeout>(), 204, None),
        Row(Post, refresh, "Extend", one::<Refresh>(), 204, None),
        Row(Get, own, "Inspect, also after its end", None, 200, inspect),
    ]
}

fn template_rows() -> Vec<Row> {
    let (list, info) = (many::<Template>, one::<TemplateInfo>);
    let (own, own_one) = ("/warren/v1/templates", "/warren/v1/templates/{name}");
    vec![
        Row(Get, "/templates", "List", None, 200, list()),
        Row(Get, "/v2/templates", "List in pages", None, 200, list()),
        Row(
            Get,
            "/templates/{id}",
            "Inspect",
            None,
            200,
            one::<TemplateWithBuilds>(),
        ),
        Row(
            Delete,
            "/templates/{id}",
            "Delete, if not in use",
            None,
            204,
            None,
        ),
        Row(
            Get,
            "/templates/aliases/{alias}",
            "Find by name",
            None,
            200,
            one::<TemplateAlias>(),
        ),
        Row(Get, own, "List", None, 200, many::<TemplateInfo>()),
        Row(
            Post,
            own,
            "Pull an image; one line per step",
            one::<PullRequest>(),
            200,
            lines::<PullEvent>(),
        ),
        Row(Get, own_one, "Inspect", None, 200, info()),
        Row(Delete, own_one, "Delete, if not in use", None, 204, None),
        Row(
            Post,
            "/warren/v1/aliases",
            "Name a template",
            one::<NewAlias>(),
            201,
            info(),
        ),
    ]
}

fn operation(row: &Row) -> OperationBuilder {
    let Row(_, path, summary, body, status, reply) = row;
    let mut ok = ResponseBuilder::new().description("done");
    if let Some(shape) = reply {
        ok = ok.content(shape.media, Content::new(Some(shape.schema.clone())));
    }
    let error = Content::new(Some(Ref::from_schema_name(ErrorBody::name())));
    let failed = ResponseBuilder::new()
        .description("failed")
        .content(JSON, error);
    let mut operation = OperationBuilder::new()
        .summary(Some(*summary))
        .response(status.to_string(), ok)
        .response("default", failed);
    if let Some(shape) = body {
        let content = Content::new(Some(shape.schema.clone()));
        let body = RequestBodyBuilder::new().content(shape.media, content);
        operation = operation.request_body(Some(body.build()));
    }
    let names = path
        .split('/')
        .filter_map(|s| s.strip_prefix('{')?.strip_suffix('}'));
    for name in names {
        let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(text));
        operation = operation.parameter(parameter);
    }
    if !OPEN.contains(path) {
        let none: [&str; 0] = [];
        operation = operation.security(SecurityRequirement::new(KEY_SCHEME, none));
    }
    operation
}

fn build() -> OpenApi {
    let rows = rows();
    let mut schemas: Schemas = vec![(ErrorBody::name().into_owned(), ErrorBody::schema())];
    let mut paths = PathsBuilder::new();
    for row in &rows {
        for shape in row.3.iter().chain(&row.5) {
            (shape.add)(&mut schemas);
        }
        paths = paths.path(row.1, PathItem::new(row.0.clone(), operation(row)));
    }
    let key = ApiKey::Header(ApiKeyValue::new("X-API-Key"));
    let components = ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme(KEY_SCHEME, SecurityScheme::ApiKey(key));
    let info = InfoBuilder::new()
        .title("Warren")
        .version(env!("CARGO_PKG_VERSION"));
    OpenApiBuilder::new()
        .info(info)
        .paths(paths)
        .components(Some(components.build()))
        .build()
}

pub(super) async fn document() -> Response {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let json = build().to_json();
        json.expect("the document holds only text, numbers and maps")
    });
    ([(header::CONTENT_TYPE, JSON)], text.as_str()).into_response()
}
