package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Target is the resource that a path names.
type Target struct {
	schema.GroupVersion
	Resource  string
	Namespace string
	Name      string
	View      string // subresource
	Rest      string // the path after the subresource, for proxies
	// Watch says that the old prefix form …/watch/… was used.
	Watch bool
}

// parseTarget parses a path below /api or /apis. ok is false if it does not name a resource.
func parseTarget(path string) (t Target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.Group, t.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return t, false
	}
	if parts[0] == "watch" {
		if parts = parts[1:]; len(parts) == 0 {
			return t, false
		}
		t.Watch = true
	}
	// /namespaces/NAME/status and /namespaces/NAME/finalize are subresources of the namespace itself.
	if parts[0] == "namespaces" && len(parts) > 2 && !(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		t.Namespace, parts = parts[1], parts[2:]
	}
	t.Resource = parts[0]
	if len(parts) > 1 {
		t.Name = parts[1]
	}
	if len(parts) > 2 {
		t.View = parts[2]
	}
	if len(parts) > 3 {
		t.Rest = strings.Join(parts[3:], "/")
		if strings.HasSuffix(path, "/") {
			t.Rest += "/"
		}
	}
	return t, true
}
