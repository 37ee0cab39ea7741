//go:build !linux

package database

// clients is not known here. A program that holds a lock is found when the database is written.
func clients(string) []string { return nil }
