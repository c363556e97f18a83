//! JSON Schemas: taken from the document, compiled once to check them.

use super::Lowering;
use crate::{data::Data, ir::SchemaId, language::source::At, schema::Schema};

impl<'t> Lowering<'t, '_> {
    /// The inline JSON Schema of an `input`, `output` or `export`, as an entry of the table.
    pub(super) fn schema(&mut self, parent: At<'t>) -> Option<SchemaId> {
        let document = self.schema_document(parent)?;
        let known = self.schemas.iter().position(|schema| *schema == document);
        let id = known.unwrap_or_else(|| {
            self.schemas.push(document);
            self.schemas.len() - 1
        });
        Some(id as SchemaId)
    }

    /// The same by itself.
    pub(super) fn schema_document(&mut self, parent: At<'t>) -> Option<Data> {
        let schema = parent.get("schema")?;
        let format = schema.get("format").and_then(At::text).unwrap_or("json");
        if !(format == "json" || format.starts_with("json:")) {
            self.unsupported(schema.place(), &format!("schemas of the format `{format}`"));
            return None;
        }
        if let Some(resource) = schema.get("resource") {
            let url = self.fixed_url(resource.get("endpoint")?)?;
            let at = self.fetched(resource.key_place(), url, "the schema")?;
            self.check_schema(at);
            return Some(at.to_data());
        }
        let at = schema.get("document")?;
        self.check_schema(at);
        Some(at.to_data())
    }

    /// Reports what makes the schema at `at` unusable, where it stands.
    pub(super) fn check_schema(&mut self, at: At<'_>) {
        let Err(error) = Schema::new(&at.to_data()) else { return };
        let mut place = at;
        for segment in error.pointer.split('/').skip(1) {
            let key = segment.replace("~1", "/").replace("~0", "~");
            let item = key.parse().ok().and_then(|index: usize| place.items().nth(index));
            match place.get(&key).or(item) {
                Some(inner) => place = inner,
                None => break,
            }
        }
        let message = format!("this is not a usable JSON Schema: {}", error.message);
        self.error(place.place(), "bad-schema", message, None);
    }
}
