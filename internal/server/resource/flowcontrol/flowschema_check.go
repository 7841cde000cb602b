package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

// verbs are the verbs that rules may contain, in the order in which errors list them.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func checkSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkSchemaSpec(s.Name, &s.Spec, path)
	for _, m := range mandatorySchemas() {
		if m.Name == s.Name && !equality.Semantic.DeepEqual(s.Spec, m.Spec) {
			errs = append(errs, field.Invalid(path, quote.Of(s.Spec), fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	return append(errs, checkConditions(schemaConditions(s))...)
}

func checkSchemaSpec(name string, s *flowcontrolv1.FlowSchemaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	precedence := func(problem string) {
		errs = append(errs, field.Invalid(path.Child("matchingPrecedence"), s.MatchingPrecedence, problem))
	}
	switch n := s.MatchingPrecedence; {
	case n <= 0:
		precedence("must be a positive value")
	case n > flowcontrolv1.FlowSchemaMaxMatchingPrecedence:
		precedence(fmt.Sprintf("must not be greater than %d", flowcontrolv1.FlowSchemaMaxMatchingPrecedence))
	case n == 1 && name != exempt:
		precedence("only the schema named 'exempt' may have matchingPrecedence 1")
	}
	if m := s.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType {
		errs = append(errs, field.NotSupported(path.Child("distinguisherMethod", "type"), quote.Of(m),
			[]flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}))
	}
	at := path.Child("priorityLevelConfiguration", "name")
	if level := s.PriorityLevelConfiguration.Name; level == "" {
		errs = append(errs, field.Required(at, "must reference a priority level"))
	} else {
		errs = append(errs, check.Subdomain(level, at)...)
	}
	for i := range s.Rules {
		errs = append(errs, checkRule(&s.Rules[i], path.Child("rules").Index(i))...)
	}
	return errs
}

func checkRule(r *flowcontrolv1.PolicyRulesWithSubjects, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range r.Subjects {
		errs = append(errs, checkSubject(&r.Subjects[i], path.Child("subjects").Index(i))...)
	}
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(path.Child("subjects"), "subjects must contain at least one value"))
	}
	if len(r.ResourceRules)+len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, checkResourceRule(&r.ResourceRules[i], path.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, checkPathRule(&r.NonResourceRules[i], path.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

// part is one of the three kinds of a subject.
type part struct {
	kind       flowcontrolv1.SubjectKind
	name, word string
	set        bool
	check      func(*field.Path) field.ErrorList
}

func checkSubject(s *flowcontrolv1.Subject, path *field.Path) field.ErrorList {
	parts := []part{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", "ServiceAccount", s.ServiceAccount != nil, func(p *field.Path) field.ErrorList { return checkAccount(s.ServiceAccount, p) }},
		{flowcontrolv1.SubjectKindUser, "user", "User", s.User != nil, func(p *field.Path) field.ErrorList { return required(s.User.Name, p.Child("name")) }},
		{flowcontrolv1.SubjectKindGroup, "group", "Group", s.Group != nil, func(p *field.Path) field.ErrorList { return required(s.Group.Name, p.Child("name")) }},
	}
	own := slices.IndexFunc(parts, func(p part) bool { return p.kind == s.Kind })
	if own < 0 {
		return field.ErrorList{field.NotSupported(path.Child("kind"), s.Kind,
			[]flowcontrolv1.SubjectKind{flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser})}
	}
	var errs field.ErrorList
	at := path.Child(parts[own].name)
	if parts[own].set {
		errs = parts[own].check(at)
	} else {
		errs = field.ErrorList{field.Required(at, fmt.Sprintf("%s is required when subject kind is '%s'", parts[own].name, parts[own].word))}
	}
	for i, p := range parts {
		if i != own && p.set {
			errs = append(errs, field.Forbidden(path.Child(p.name), fmt.Sprintf("%s is forbidden when subject kind is not '%s'", p.name, p.word)))
		}
	}
	return errs
}

func required(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func checkAccount(s *flowcontrolv1.ServiceAccountSubject, path *field.Path) field.ErrorList {
	errs := required(s.Name, path.Child("name"))
	if s.Name != "" && s.Name != flowcontrolv1.NameAll {
		errs = append(errs, check.Invalid(path.Child("name"), s.Name, validation.ValidateServiceAccountName(s.Name, false))...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs, check.Invalid(path.Child("namespace"), s.Namespace, validation.ValidateNamespaceName(s.Namespace, false))...)
}

func checkVerbs(all []string, path *field.Path) field.ErrorList {
	switch known := func(v string) bool { return !slices.Contains(verbs, v) }; {
	case len(all) == 0:
		return field.ErrorList{field.Required(path, "verbs must contain at least one value")}
	case slices.Contains(all, "*"):
		return alone(all, path, "verbs")
	case slices.ContainsFunc(all, known):
		return field.ErrorList{field.NotSupported(path, all, verbs)}
	}
	return nil
}

// alone requires that a wildcard is the only element.
func alone(all []string, path *field.Path, what string) field.ErrorList {
	if len(all) > 1 && slices.Contains(all, "*") {
		return field.ErrorList{field.Invalid(path, all, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func checkResourceRule(r *flowcontrolv1.ResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := checkVerbs(r.Verbs, path.Child("verbs"))
	if at := path.Child("apiGroups"); len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(at, "resource rules must supply at least one api group"))
	} else {
		errs = append(errs, alone(r.APIGroups, at, "api groups")...)
	}
	if at := path.Child("resources"); len(r.Resources) == 0 {
		errs = append(errs, field.Required(at, "resource rules must supply at least one resource"))
	} else {
		errs = append(errs, alone(r.Resources, at, "resources")...)
	}
	at := path.Child("namespaces")
	switch {
	case len(r.Namespaces) == 0 && !r.ClusterScope:
		return append(errs, field.Required(at, "resource rules that are not cluster scoped must supply at least one namespace"))
	case slices.Contains(r.Namespaces, flowcontrolv1.NamespaceEvery):
		return append(errs, alone(r.Namespaces, at, "namespaces")...)
	}
	for i, ns := range r.Namespaces {
		for _, problem := range validation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(at.Index(i), ns, "each member of this list must be '*' or a DNS-1123 label; "+problem))
		}
	}
	return errs
}

func checkPathRule(r *flowcontrolv1.NonResourcePolicyRule, path *field.Path) field.ErrorList {
	errs := checkVerbs(r.Verbs, path.Child("verbs"))
	at := path.Child("nonResourceURLs")
	switch {
	case len(r.NonResourceURLs) == 0:
		return append(errs, field.Required(at, "nonResourceURLs must contain at least one value"))
	case slices.Contains(r.NonResourceURLs, "*"):
		return append(errs, alone(r.NonResourceURLs, at, "non-resource URLs")...)
	}
	for i, p := range r.NonResourceURLs {
		if problem := pathProblem(p); problem != "" {
			errs = append(errs, field.Invalid(at.Index(i), p, problem))
		}
	}
	return errs
}

func pathProblem(path string) string {
	stars := strings.Count(path, "*")
	switch {
	case path == "":
		return "must not be empty"
	case path[0] != '/':
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
