package faults

import (
	"net/http"
	"strings"
)

// subject is the object of a request.
type subject struct {
	verb, resource, name, user string
}

// subjectOf parses a request's path as an API path. It is empty for other paths.
func subjectOf(r *http.Request) subject {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return subject{}
	}
	namespace := ""
	if len(parts) >= 3 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		namespace, parts = parts[1]+"/", parts[2:]
	}
	s := subject{resource: parts[0]}
	if len(parts) > 1 {
		s.name = namespace + parts[1]
	}
	if len(parts) > 2 {
		s.resource += "/" + strings.Join(parts[2:], "/")
	}
	s.verb = verbOf(r, s.name != "")
	return s
}

func verbOf(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	switch watch := r.URL.Query().Get("watch"); {
	case watch == "true" || watch == "1":
		return "watch"
	case named:
		return "get"
	}
	return "list"
}
