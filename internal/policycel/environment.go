// Package policycel compiles the CEL expressions of webhooks and policies, with Kubernetes' own variables and
// libraries. The API server evaluates what it compiles; the loop that checks the types of policies compiles them for
// the types of their objects.
//
// An Expression never changes and may be evaluated by many goroutines. A Compiler may be used by many once its
// variables are complete.
package policycel

import (
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// These are the names of the variables.
const (
	ObjectName     = "object"
	OldObjectName  = "oldObject"
	ParamsName     = "params"
	RequestName    = "request"
	NamespaceName  = "namespaceObject"
	AuthorizerName = "authorizer"
	CheckName      = "authorizer.requestResource"
	VariablesName  = "variables"
)

// Variables say what expressions may name besides the objects, the request and the namespace.
type Variables struct {
	Params, Authorizer bool
	// Patches lets expressions make patches: the types Object and JSONPatch.
	Patches bool
	// Alone says that the variables of the policy may not be named, as in match conditions.
	Alone bool
	// Types are those of the objects, if they are known.
	Types *Types
}

// Types are those of the variables whose types depend on what a policy is about. Nil is any type.
type Types struct {
	Object, Params *apiservercel.DeclType
}

// of is the CEL type of a variable.
func of(t *apiservercel.DeclType) *cel.Type {
	if t == nil {
		return cel.DynType
	}
	return t.CelType()
}

// Base is the environment with all libraries of Kubernetes. It is large, and made when the first expression is
// compiled.
var Base = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// always is the version of what every environment has.
var always = version.MajorMinor(1, 0)

// extend adds what expressions may name.
func extend(from *environment.EnvSet, v Variables) (*environment.EnvSet, error) {
	request, namespace := requestType(), namespaceType()
	declared := []*apiservercel.DeclType{namespace, request}
	types := Types{}
	if v.Types != nil {
		types = *v.Types
	}
	for _, t := range []*apiservercel.DeclType{types.Object, types.Params} {
		if t != nil {
			declared = append(declared, t)
		}
	}
	options := []cel.EnvOption{
		cel.Variable(ObjectName, of(types.Object)), cel.Variable(OldObjectName, of(types.Object)),
		cel.Variable(NamespaceName, namespace.CelType()), cel.Variable(RequestName, request.CelType()),
	}
	if v.Params {
		options = append(options, cel.Variable(ParamsName, of(types.Params)))
	}
	if v.Authorizer {
		options = append(options, cel.Variable(AuthorizerName, library.AuthorizerType))
	}
	if v.Authorizer && v.Types == nil { // Kubernetes checks types without it
		options = append(options, cel.Variable(CheckName, library.ResourceCheckType))
	}
	extended, err := from.Extend(environment.VersionedOptions{IntroducedVersion: always, EnvOptions: options, DeclTypes: declared}, environment.StrictCostOpt)
	if err != nil || !v.Patches {
		return extended, err
	}
	return extended.Extend(environment.VersionedOptions{IntroducedVersion: always, EnvOptions: []cel.EnvOption{
		common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), environment.UnversionedLib(library.JSONPatch),
	}})
}

// member is a field of a declared type.
type member struct {
	name     string
	of       *apiservercel.DeclType
	required bool
}

func declare(name string, members ...member) *apiservercel.DeclType {
	fields := map[string]*apiservercel.DeclField{}
	for _, m := range members {
		fields[m.name] = apiservercel.NewDeclField(m.name, m.of, m.required, nil, nil)
	}
	return apiservercel.NewObjectType(name, fields)
}

var (
	text    = apiservercel.StringType
	texts   = apiservercel.NewListType(apiservercel.StringType, -1)
	mapping = apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)
)

// requestType is the request without its objects, which are variables of their own, and without its UID.
func requestType() *apiservercel.DeclType {
	kind := declare("kubernetes.GroupVersionKind", member{"group", text, true}, member{"version", text, true}, member{"kind", text, true})
	resource := declare("kubernetes.GroupVersionResource", member{"group", text, true}, member{"version", text, true}, member{"resource", text, true})
	user := declare("kubernetes.UserInfo", member{"username", text, false}, member{"uid", text, false}, member{"groups", texts, false},
		member{"extra", apiservercel.NewMapType(apiservercel.StringType, texts, -1), false})
	return declare("kubernetes.AdmissionRequest",
		member{"kind", kind, true}, member{"resource", resource, true}, member{"subResource", text, false},
		member{"requestKind", kind, true}, member{"requestResource", resource, true}, member{"requestSubResource", text, false},
		member{"name", text, true}, member{"namespace", text, false}, member{"operation", text, true},
		member{"userInfo", user, true}, member{"dryRun", apiservercel.BoolType, false}, member{"options", apiservercel.DynType, false})
}

func namespaceType() *apiservercel.DeclType {
	moment, number := apiservercel.TimestampType, apiservercel.IntType
	meta := declare("kubernetes.NamespaceMetadata",
		member{"name", text, true}, member{"generateName", text, true}, member{"namespace", text, true}, member{"labels", mapping, true},
		member{"annotations", mapping, true}, member{"UID", text, true}, member{"creationTimestamp", moment, true},
		member{"deletionGracePeriodSeconds", number, true}, member{"deletionTimestamp", moment, true}, member{"generation", number, true},
		member{"resourceVersion", text, true}, member{"finalizers", texts, true})
	condition := declare("kubernetes.NamespaceCondition", member{"status", text, true}, member{"type", text, true},
		member{"lastTransitionTime", moment, true}, member{"message", text, true}, member{"reason", text, true})
	return declare("kubernetes.Namespace", member{"metadata", meta, true},
		member{"spec", declare("kubernetes.NamespaceSpec", member{"finalizers", texts, true}), true},
		member{"status", declare("kubernetes.NamespaceStatus",
			member{"conditions", apiservercel.NewListType(condition, -1), true}, member{"phase", text, true}), true})
}
