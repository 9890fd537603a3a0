-- The barrier that was written down as `text`; where that cannot be read, one that nothing is known of but that it is
-- up. Its generation is '' then. Needs `whole` and `decoded`.
local function barrier_of(text)
  local barrier = decoded(text, 'intents', 'table') or {intents = {}, first = ''}
  if type(barrier.generation) ~= 'string' or whole(barrier.generation) <= 0 then barrier.generation = '' end
  if barrier.first ~= nil and type(barrier.first) ~= 'string' then barrier.first = '' end
  if whole(barrier.held_until) <= 0 then barrier.held_until = nil end
  for token, ends in pairs(barrier.intents) do
    if type(token) ~= 'string' or whole(ends) <= 0 then barrier.intents[token] = nil end
  end
  return barrier
end
