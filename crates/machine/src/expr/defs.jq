# Definitions that replace or complete those of the engine. A definition with the name and number of arguments of
# an engine's one takes its place, and may then use only what the engine defines before it.

# Numbers in text print as JSON prints them: `10/5` is 2, not 2.0.
def tostring: windlass_text;
def @text: windlass_text;

# The spellings of key and value that jq accepts.
def from_entries:
  reduce .[] as $e ({}; . + {
    ($e | if .key == null then .k // .name // .Name // .K // .Key else .key end | windlass_text):
    ($e | if has("value") then .value elif has("v") then .v else .Value end)
  });

# Building the replacer dominates short texts.
def @html : tostring | windlass_spend(200) | escape_html;
def @htmld: tostring | windlass_spend(200) | unescape_html;

def leaf_paths: paths(scalars);
def toarray: if isarray then . else [.] end;
def ascii: [.] | implode;
def date: todate;
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def INDEX(stream; f): reduce stream as $row ({}; .[$row | f | tostring] = $row);
def INDEX(f): INDEX(.[]; f);
def @csv: [.[]
  | if isstring then "\"" + (. / "\"" | join("\"\"")) + "\""
    elif isnumber or isboolean then tostring
    elif . == null then ""
    else error("\(type) is not valid in a csv row") end
] | join(",");
def @tsv: [.[]
  | if isstring then . / "\\" | join("\\\\") | . / "\t" | join("\\t") | . / "\n" | join("\\n") | . / "\r" | join("\\r")
    elif isnumber or isboolean then tostring
    elif . == null then ""
    else error("\(type) is not valid in a tsv row") end
] | join("\t");
