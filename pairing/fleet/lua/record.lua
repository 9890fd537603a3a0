-- A record; nil where there is none.
local function decoded(text) return text and cjson.decode(text) or nil end
