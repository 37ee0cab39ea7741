// Package redis is a [segno.Store] in Redis from version 6 or in Valkey. It uses plain commands and one
// Lua script, but no modules.
//
//	s, err := redis.Open(ctx, "redis://localhost:6379/0", redis.Options{TTL: 30 * 24 * time.Hour})
//
// The store is [kv.Store]; its package comment explains it. Here a group of keys is one hash and a key
// is one field of that hash, so that a thread is one key of the server with one TTL. A commit is one
// script and one round trip. Head and Load are one round trip each. In a cluster, where the keys of a
// script must be in one slot, one script writes the part in the thread's group, after single commands
// have written the look-ups and objects.
//
// # Durability
//
// A commit is as durable as the server makes a write. redis.conf determines which commits are lost when
// the server is killed or the power fails:
//
//	appendonly yes, appendfsync always     nothing: each commit is on disk before it is
//	                                       acknowledged
//	appendonly yes, appendfsync everysec   killed: nothing, or two seconds if the disk was
//	                                       busy; without power: about two seconds
//	appendonly yes, appendfsync no         killed: nothing; without power: what the operating
//	                                       system had not written, often half a minute
//	appendonly no                          everything since the last snapshot
//
// On one server, a commit is lost as a whole, because a script is one unit of the append-only file, and
// the server reads a truncated file up to the last unit. Replication is asynchronous: a replica that is
// promoted may lack the newest commits, and a writer that knows them then gets [segno.KindConflict] or
// [segno.KindNotFound]. maxmemory-policy should be noeviction: with any other policy, a server that is
// short of memory removes threads before they expire.
//
// go-redis repeats a command if the connection breaks. That is safe, because a repeated commit returns
// the result of the first one. A client must not read from replicas.
package redis
