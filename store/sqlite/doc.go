// Package sqlite is segno's default store.
package sqlite
