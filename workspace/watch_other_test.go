//go:build !linux

package workspace_test

import "errors"

func serveWatch(string) error { return errors.ErrUnsupported }
