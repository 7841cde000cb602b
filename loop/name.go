package loop

import "context"

type nameKey struct{}

// WithName returns a context whose requests belong to the loop of this name, for [LimitRequests] and [UseAccounts]. It
// is a Group.Identify.
func WithName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// nameOf returns the name of the loop that a request belongs to, or "".
func nameOf(ctx context.Context) string {
	name, _ := ctx.Value(nameKey{}).(string)
	return name
}
