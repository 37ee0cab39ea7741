// Package redis is a [segno.Store] in Redis from version 6 or Valkey, with plain
// commands and one Lua script: no modules.
package redis
