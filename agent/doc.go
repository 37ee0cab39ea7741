// Package agent is a Go agent whose every step is a checkpoint.
package agent
