// Package e2e has the tests that run the segno command as people do: built, in its
// own process, with real agents.
package e2e
