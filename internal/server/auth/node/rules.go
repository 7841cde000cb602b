package node

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/internal/server/auth"
)

// thing is what a node may be related to.
type thing string

const (
	secret        thing = "secret"
	configMap     thing = "configmap"
	pod           thing = "pod"
	claim         thing = "persistentvolumeclaim"
	volume        thing = "persistentvolume"
	attachment    thing = "volumeattachment"
	account       thing = "serviceaccount"
	resourceClaim thing = "resourceclaim"
	slice         thing = "resourceslice"
	podRequest    thing = "podcertificaterequest"
)

// decision is what a rule comes to: it allows, it asks for a relation of the node to the object, or neither, for a
// reason.
type decision struct {
	allow  bool
	of     thing
	reason string
}

var yes = decision{allow: true}

func no(format string, args ...any) decision { return decision{reason: fmt.Sprintf(format, args...)} }

// rule looks at a request for a resource.
type rule func(node string, at *auth.Attributes) decision

// divided are the resources of which a node may use a part.
var divided = map[schema.GroupResource]rule{
	{Resource: "secrets"}:                                              reading(secret),
	{Resource: "configmaps"}:                                           reading(configMap),
	{Resource: "persistentvolumeclaims"}:                               claims,
	{Resource: "persistentvolumes"}:                                    getting(volume),
	{Resource: "serviceaccounts"}:                                      accounts,
	{Resource: "nodes"}:                                                nodes,
	{Resource: "pods"}:                                                 pods,
	{Group: "coordination.k8s.io", Resource: "leases"}:                 leases,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                    csiNodes,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:           getting(attachment),
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:             getting(resourceClaim),
	{Group: "resource.k8s.io", Resource: "resourceslices"}:             resourceSlices,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}: podRequests,
}

func one(verb string, of ...string) bool { return slices.Contains(of, verb) }

// reading allows reads of single objects in a namespace.
func reading(of thing) rule {
	return func(_ string, at *auth.Attributes) decision {
		switch {
		case !one(at.Verb, "get", "list", "watch"):
			return no("can only read resources of this type")
		case at.Subresource != "":
			return no("cannot read subresource")
		case at.Namespace == "":
			return no("can only read namespaced object of this type")
		}
		return decision{of: of}
	}
}

// getting allows to get single objects.
func getting(of thing) rule {
	return func(_ string, at *auth.Attributes) decision {
		switch {
		case at.Verb != "get":
			return no("can only get individual resources of this type")
		case at.Subresource != "":
			return no("cannot get subresource")
		}
		return decision{of: of}
	}
}

func claims(node string, at *auth.Attributes) decision {
	if at.Subresource != "status" {
		return getting(claim)(node, at)
	}
	if !one(at.Verb, "update", "patch") {
		return no("can only get/update/patch this type")
	}
	return decision{of: claim}
}

func accounts(node string, at *auth.Attributes) decision {
	switch {
	case at.Verb == "get" && at.Subresource == "":
		return reading(account)(node, at)
	case at.Verb != "create" || at.Name == "":
		return no("can only create tokens for individual service accounts")
	case at.Subresource != "token":
		return no("can only create token subresource of serviceaccount")
	}
	return decision{of: account}
}

// nodes may be created and changed: NodeRestriction sees to it that they are the caller's own.
func nodes(node string, at *auth.Attributes) decision {
	switch {
	case one(at.Subresource, "", "status") && one(at.Verb, "update", "patch"), at.Subresource == "" && at.Verb == "create":
		return yes
	case at.Subresource != "" || !one(at.Verb, "get", "list", "watch"):
		return decision{}
	case at.Name == node:
		return yes
	case at.Name == "":
		return no("node '%s' cannot read all nodes, only its own Node object", node)
	}
	return no("node '%s' cannot read '%s', only its own Node object", node, at.Name)
}

func pods(node string, at *auth.Attributes) decision {
	switch {
	case at.Subresource == "" && at.Verb == "get":
		return decision{of: pod}
	case at.Subresource == "" && one(at.Verb, "list", "watch"):
		switch {
		case selects(at, "spec.nodeName", node):
			return yes
		case at.Name != "":
			return decision{of: pod}
		}
		return no("can only list/watch pods with spec.nodeName field selector")
	case at.Subresource == "" && one(at.Verb, "create", "delete"), // mirror pods, says NodeRestriction
		at.Subresource == "status" && one(at.Verb, "update", "patch"),
		at.Subresource == "eviction" && at.Verb == "create":
		return yes
	}
	return decision{}
}

// selects tells whether a request is limited to one value of a field.
func selects(at *auth.Attributes, field, value string) bool {
	for _, r := range at.Fields {
		if r.Field == field && r.Operator == selection.Equals && r.Value == value {
			return true
		}
	}
	return false
}

func leases(node string, at *auth.Attributes) decision {
	switch {
	case !one(at.Verb, "get", "create", "update", "patch", "delete"):
		return no("can only get, create, update, patch, or delete a node lease")
	case at.Namespace != corev1.NamespaceNodeLease:
		return no("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case at.Verb != "create" && at.Name != node: // the name of a new one is in the body, which NodeRestriction reads
		return no("can only access node lease with the same name as the requesting node")
	}
	return yes
}

func csiNodes(node string, at *auth.Attributes) decision {
	switch {
	case at.Subresource != "":
		return no("cannot authorize CSINode subresources")
	case !one(at.Verb, "get", "create", "update", "patch", "delete"):
		return no("can only get, create, update, patch, or delete a CSINode")
	case at.Verb != "create" && at.Name != node:
		return no("can only access CSINode with the same name as the requesting node")
	}
	return yes
}

func resourceSlices(node string, at *auth.Attributes) decision {
	switch {
	case at.Subresource != "":
		return no("cannot authorize ResourceSlice subresources")
	case at.Verb == "create": // whose node it names is in the body, which NodeRestriction reads
		return yes
	case one(at.Verb, "get", "update", "patch", "delete"):
		return decision{of: slice}
	case !one(at.Verb, "list", "watch", "deletecollection"):
		return no("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
	case selects(at, "spec.nodeName", node):
		return yes
	}
	return no("can only list/watch/deletecollection resourceslices with spec.nodeName field selector")
}

// podRequests may be made, in the name of the node's own pods, as NodeRestriction sees to, and read. The status is the
// signer's.
func podRequests(node string, at *auth.Attributes) decision {
	switch {
	case at.Subresource != "":
		return no("nodes may not access the status subresource of PodCertificateRequests")
	case at.Verb == "create":
		return yes
	case at.Verb == "get":
		return decision{of: podRequest}
	case !one(at.Verb, "list", "watch"):
		return no("nodes may not %s podcertificaterequests", at.Verb)
	case selects(at, "spec.nodeName", node):
		return yes
	}
	return no("can only list/watch podcertificaterequests with nodeName field selector")
}
