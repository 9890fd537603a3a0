-- A record, or nil where there is none, or one that makes no sense: it is written anew.
local function decoded(text, field, kind)
  local is_json, record = pcall(cjson.decode, text)
  if is_json and type(record) == 'table' and type(record[field]) == kind then return record end
end
