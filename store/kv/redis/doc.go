// Package redis is a [segno.Store] in Redis from version 6 or in Valkey, with plain
// commands and one Lua script: no modules.
//
//	s, err := redis.Open(ctx, "redis://localhost:6379/0", redis.Options{TTL: 30 * 24 * time.Hour})
//
// The store is [kv.Store] and its package comment says how it works; here a group of
// keys is one hash and a key is one field of it, so that a thread is one key with one
// TTL. A commit is one script and one round trip, Head and Load are one each. In a
// cluster, where a script must stay in one slot, a thread's part is one script and
// look-ups and objects come before it, each on its own.
//
// # Durability
//
// A commit is as durable as the server makes a write. What it loses when it is killed
// or the machine loses power is set in redis.conf:
//
//	appendonly yes, appendfsync always     nothing: each commit is on disk before it is
//	                                       acknowledged
//	appendonly yes, appendfsync everysec   killed: nothing, or two seconds if the disk was
//	                                       busy; without power: about two seconds
//	appendonly yes, appendfsync no         killed: nothing; without power: what the system
//	                                       had not written, often half a minute
//	appendonly no                          everything since the last snapshot
//
// On one server a commit is lost whole: a script is one unit of the append-only file,
// and a file cut short in it is read up to it. Replication is asynchronous: a
// replica that takes over may lack the newest commits, and a writer that saw them gets
// a conflict, or that the thread does not exist. maxmemory-policy should be noeviction:
// with any other a server short of memory drops threads, whole, before their time.
//
// go-redis sends a command again when the connection breaks. That is safe: a commit
// that finds itself made is made. A client must not read from replicas.
package redis
