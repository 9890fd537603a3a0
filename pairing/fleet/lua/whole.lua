-- A whole number; 0 where there is none.
local function whole(value) return tonumber(value) or 0 end
