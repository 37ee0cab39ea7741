package cli

import "context"

// openTrusted is openOrRegister for a user who accepts that another user owns the
// directory. refused is why openOrRegister failed before.
func (a *app) openTrusted(ctx context.Context, refused error) (*desk, error) {
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
	a.say("recording %s although another user owns it", inline(root))
	return a.openOrRegister(ctx)
}
