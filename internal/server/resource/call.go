package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type callKey struct{}

// Call is what rules may know about the request that they serve.
type Call struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Program is the first part of the client's user agent.
	Program string
	// Verb is the verb of the request, such as update or patch.
	Verb string
	// Cause is what the client says of why it acts: the text of a cause.Cause.
	Cause string
	// Face is the group and version that the request uses.
	Face schema.GroupVersion
	// DryRun says that nothing will be stored.
	DryRun bool
	// AllowPrivileged says that the server allows privileged containers.
	AllowPrivileged bool
}

// WithCall stores a Call in a context; CallFrom returns it.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the zero Call if there is none.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// NoResource is the empty resource, for errors that are not about a resource.
var NoResource schema.GroupResource
