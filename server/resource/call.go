package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type callKey struct{}

// Call is what rules may know of the request they serve.
type Call struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Face is the group and version that the caller speaks.
	Face schema.GroupVersion
	// DryRun says that nothing will be kept.
	DryRun bool
	// AllowPrivileged says that the server lets containers run privileged.
	AllowPrivileged bool
}

// WithCall and CallFrom carry a Call in a context.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the zero Call if there is none.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// NoResource is the name of nothing, for errors that are not about a resource.
var NoResource schema.GroupResource
