-- Each op is seven arguments: the hash's place in KEYS, the action (put, delete
-- or check), the field, the condition ("" none, "*" any, "+" some, else the SHA-1 of
-- the value), "alone" if the field must be that, a time to live, and the value.
-- Returns the place of the first op whose condition does not hold, or 0.
for i = 1, #ARGV, 7 do
  local hash, field, cond = KEYS[tonumber(ARGV[i])], ARGV[i + 2], ARGV[i + 3]
  local ok = true
  if cond == "" then
    ok = redis.call("HEXISTS", hash, field) == 0
  elseif cond == "+" then
    ok = redis.call("HEXISTS", hash, field) == 1
  elseif cond ~= "*" then
    local val = redis.call("HGET", hash, field)
    ok = val and redis.sha1hex(val) == cond
  end
  if ok and ARGV[i + 4] == "alone" then
    ok = redis.call("HLEN", hash) == redis.call("HEXISTS", hash, field)
  end
  if not ok then
    return (i + 6) / 7
  end
end
for i = 1, #ARGV, 7 do
  local hash, act, field, ttl = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 5])
  local left = -1
  if ttl > 0 then
    left = redis.call("PTTL", hash)
  end
  if act == "put" then
    redis.call("HSET", hash, field, ARGV[i + 6])
  elseif act == "delete" then
    redis.call("HDEL", hash, field)
  end
  if left == -2 or left >= 0 and left < ttl then
    redis.call("PEXPIRE", hash, ttl)
  end
end
return 0
