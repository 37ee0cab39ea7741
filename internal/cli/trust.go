package cli

import "context"

// openTrusted is openOrRegister if the user accepts that another user owns the
// directory. refused is the error of openOrRegister.
func (a *app) openTrusted(ctx context.Context, refused error) (*openWorkspace, error) {
	place, err := a.place()
	if err != nil {
		return nil, err
	}
	root, err := place.Trust(ctx, refused)
	if err != nil {
		return nil, err
	}
	if root == "" {
		return nil, refused
	}
	a.notef("recording %s although another user owns it", inline(root))
	return a.openOrRegister(ctx)
}
