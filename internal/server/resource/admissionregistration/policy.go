package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ValidatingPolicies refuse changes by CEL expressions.
func ValidatingPolicies() *resource.Kind {
	type policy = *admissionv1.ValidatingAdmissionPolicy
	return policies(resource.Description[policy]{
		Kind: "ValidatingAdmissionPolicy", Resource: "validatingadmissionpolicies",
		Status: &resource.Rules[policy]{
			ValidateUpdate: func(_ context.Context, p, _ policy) field.ErrorList { return checkPolicyStatus(p) },
		},
	}, "Validations", "Validations indicates the number of validation rules defined in this configuration", checkValidating, func(p policy) parts {
		return parts{&p.Spec.FailurePolicy, p.Spec.MatchConstraints, p.Spec.ParamKind, len(p.Spec.Validations)}
	})
}

// MutatingPolicies modify objects by CEL expressions.
func MutatingPolicies() *resource.Kind {
	type policy = *admissionv1.MutatingAdmissionPolicy
	return policies(resource.Description[policy]{
		Kind: "MutatingAdmissionPolicy", Resource: "mutatingadmissionpolicies",
		Also: []resource.Serving[policy]{resource.Alike[policy, v1beta1.MutatingAdmissionPolicy](v1beta1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy"))},
	},
		"Mutations", "Mutations indicates the number of mutations rules defined in this configuration", checkMutating, func(p policy) parts {
			return parts{&p.Spec.FailurePolicy, p.Spec.MatchConstraints, p.Spec.ParamKind, len(p.Spec.Mutations)}
		})
}

// parts are what both kinds of policy have in common.
type parts struct {
	failure **admissionv1.FailurePolicyType
	match   *admissionv1.MatchResources
	param   *admissionv1.ParamKind
	rules   int
}

// policies completes a description with what both kinds have in common. A column shows the number of their rules.
func policies[P resource.Object](d resource.Description[P], column, words string, check func(P) field.ErrorList, of func(P) parts) *resource.Kind {
	d.Group, d.Version, d.Categories, d.Name = admissionv1.GroupName, "v1", extensions, name
	d.Default = func(p P) {
		fill(of(p).failure, admissionv1.Fail)
		defaultMatch(of(p).match)
	}
	d.Rules = resource.Rules[P]{
		Validate:       func(_ context.Context, p P) field.ErrorList { return check(p) },
		ValidateUpdate: func(_ context.Context, p, _ P) field.ErrorList { return check(p) },
	}
	d.Columns = []table.Column{
		table.Name(), table.Integer(column, words),
		table.Text("ParamKind", admissionv1.ValidatingAdmissionPolicySpec{}.SwaggerDoc()["paramKind"]), table.Age(),
	}
	d.Row = func(p P) resource.Row {
		return resource.Row{Cells: []any{p.GetName(), int64(of(p).rules), paramKindText(of(p).param), table.Since(p.GetCreationTimestamp())}}
	}
	return resource.Define(d)
}

// ValidatingPolicyBindings activate validating policies.
func ValidatingPolicyBindings() *resource.Kind {
	type binding = *admissionv1.ValidatingAdmissionPolicyBinding
	return bindings(resource.Description[binding]{Kind: "ValidatingAdmissionPolicyBinding", Resource: "validatingadmissionpolicybindings"}, func(b binding) bound {
		return bound{b.Spec.PolicyName, b.Spec.ParamRef, b.Spec.MatchResources, true, b.Spec.ValidationActions}
	})
}

// MutatingPolicyBindings activate mutating policies.
func MutatingPolicyBindings() *resource.Kind {
	type binding = *admissionv1.MutatingAdmissionPolicyBinding
	return bindings(resource.Description[binding]{
		Kind: "MutatingAdmissionPolicyBinding", Resource: "mutatingadmissionpolicybindings",
		Also: []resource.Serving[binding]{resource.Alike[binding, v1beta1.MutatingAdmissionPolicyBinding](v1beta1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding"))},
	}, func(b binding) bound {
		return bound{policy: b.Spec.PolicyName, ref: b.Spec.ParamRef, match: b.Spec.MatchResources}
	})
}

// bound is the content of a binding: a policy, and to what it applies. Only validating bindings have actions.
type bound struct {
	policy  string
	ref     *admissionv1.ParamRef
	match   *admissionv1.MatchResources
	acts    bool
	actions []admissionv1.ValidationAction
}

// bindings completes a description with what both kinds have in common.
func bindings[P resource.Object](d resource.Description[P], of func(P) bound) *resource.Kind {
	spec := admissionv1.ValidatingAdmissionPolicyBindingSpec{}.SwaggerDoc()
	d.Group, d.Version, d.Categories, d.Name = admissionv1.GroupName, "v1", extensions, name
	d.Default = func(b P) { defaultMatch(of(b).match) }
	d.Rules = resource.Rules[P]{
		Validate:       func(_ context.Context, b P) field.ErrorList { return checkBinding(of(b)) },
		ValidateUpdate: func(_ context.Context, b, _ P) field.ErrorList { return checkBinding(of(b)) },
	}
	d.Columns = []table.Column{table.Name(), table.Text("PolicyName", spec["policyName"]), table.Text("ParamRef", spec["paramRef"]), table.Age()}
	d.Row = func(b P) resource.Row {
		return resource.Row{Cells: []any{b.GetName(), of(b).policy, paramRefText(of(b).ref), table.Since(b.GetCreationTimestamp())}}
	}
	return resource.Define(d)
}

func defaultMatch(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	fill(&m.MatchPolicy, admissionv1.Equivalent)
	fill(&m.NamespaceSelector, metav1.LabelSelector{})
	fill(&m.ObjectSelector, metav1.LabelSelector{})
	for i := range m.ResourceRules {
		fill(&m.ResourceRules[i].Scope, admissionv1.AllScopes)
	}
	for i := range m.ExcludeResourceRules {
		fill(&m.ExcludeResourceRules[i].Scope, admissionv1.AllScopes)
	}
}

func paramKindText(k *admissionv1.ParamKind) string {
	if k == nil {
		return table.Unset
	}
	return k.APIVersion + "/" + k.Kind
}

func paramRefText(r *admissionv1.ParamRef) string {
	switch {
	case r == nil:
		return table.Unset
	case r.Namespace != "":
		return r.Namespace + "/" + r.Name
	case r.Name != "":
		return "*/" + r.Name
	}
	return "*/*"
}
