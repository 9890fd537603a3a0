-- A record, or nil where there is none, or one that makes no sense: it is written anew.
local function decoded(text, field, kind)
  local is_json, record = pcall(cjson.decode, text)
  if not is_json or type(record) ~= 'table' or type(record[field]) ~= kind then return nil end
  if kind ~= 'number' or record[field] == whole(record[field]) then return record end
end
