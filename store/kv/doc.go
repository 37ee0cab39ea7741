// Package kv is a [segno.Store] in any key-value store that can create a key only
// if it is not there.
package kv
