-- A whole number that doubles hold exactly; 0 for anything else: nobody of ours has written that.
local function whole(value)
  local number = tonumber(value)
  if number and number == math.floor(number) and math.abs(number) < 9007199254740992 then return number end
  return 0
end
