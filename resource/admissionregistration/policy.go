package admissionregistration

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/table"
)

// ValidatingPolicies refuse changes by expressions.
func ValidatingPolicies() *resource.Kind {
	spec := admissionv1.ValidatingAdmissionPolicySpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*admissionv1.ValidatingAdmissionPolicy]{
		Group: admissionv1.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicy", Resource: "validatingadmissionpolicies",
		Categories: extensions,
		Default: func(p *admissionv1.ValidatingAdmissionPolicy) {
			fill(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultMatch(p.Spec.MatchConstraints)
		},
		Rules: resource.Rules[*admissionv1.ValidatingAdmissionPolicy]{
			Validate: func(_ context.Context, p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
				return checkValidating(p)
			},
			ValidateUpdate: func(_ context.Context, p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
				return checkValidating(p)
			},
		},
		Status: &resource.Rules[*admissionv1.ValidatingAdmissionPolicy]{
			ValidateUpdate: func(_ context.Context, p, _ *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
				return checkPolicyStatus(p)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Integer("Validations", "Validations indicates the number of validation rules defined in this configuration"),
			table.Text("ParamKind", spec["paramKind"]),
			table.Age(),
		},
		Row: func(p *admissionv1.ValidatingAdmissionPolicy) resource.Row {
			return resource.Row{Cells: []any{p.Name, int64(len(p.Spec.Validations)), paramKindText(p.Spec.ParamKind), table.Since(p.CreationTimestamp)}}
		},
	})
}

// ValidatingPolicyBindings put validating policies to work.
func ValidatingPolicyBindings() *resource.Kind {
	spec := admissionv1.ValidatingAdmissionPolicyBindingSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*admissionv1.ValidatingAdmissionPolicyBinding]{
		Group: admissionv1.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicyBinding", Resource: "validatingadmissionpolicybindings",
		Categories: extensions,
		Default:    func(b *admissionv1.ValidatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) },
		Rules: resource.Rules[*admissionv1.ValidatingAdmissionPolicyBinding]{
			Validate: func(_ context.Context, b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
				return checkValidatingBinding(b)
			},
			ValidateUpdate: func(_ context.Context, b, _ *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
				return checkValidatingBinding(b)
			},
		},
		Columns: []table.Column{table.Name(), table.Text("PolicyName", spec["policyName"]), table.Text("ParamRef", spec["paramRef"]), table.Age()},
		Row: func(b *admissionv1.ValidatingAdmissionPolicyBinding) resource.Row {
			return resource.Row{Cells: []any{b.Name, b.Spec.PolicyName, paramRefText(b.Spec.ParamRef), table.Since(b.CreationTimestamp)}}
		},
	})
}

// MutatingPolicies alter changes by expressions.
func MutatingPolicies() *resource.Kind {
	spec := admissionv1.MutatingAdmissionPolicySpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*admissionv1.MutatingAdmissionPolicy]{
		Group: admissionv1.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicy", Resource: "mutatingadmissionpolicies",
		Categories: extensions,
		Default: func(p *admissionv1.MutatingAdmissionPolicy) {
			fill(&p.Spec.FailurePolicy, admissionv1.Fail)
			defaultMatch(p.Spec.MatchConstraints)
		},
		Rules: resource.Rules[*admissionv1.MutatingAdmissionPolicy]{
			Validate: func(_ context.Context, p *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
				return checkMutating(p)
			},
			ValidateUpdate: func(_ context.Context, p, _ *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
				return checkMutating(p)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Integer("Mutations", "Mutations indicates the number of mutations rules defined in this configuration"),
			table.Text("ParamKind", spec["paramKind"]),
			table.Age(),
		},
		Row: func(p *admissionv1.MutatingAdmissionPolicy) resource.Row {
			return resource.Row{Cells: []any{p.Name, int64(len(p.Spec.Mutations)), paramKindText(p.Spec.ParamKind), table.Since(p.CreationTimestamp)}}
		},
	})
}

// MutatingPolicyBindings put mutating policies to work.
func MutatingPolicyBindings() *resource.Kind {
	spec := admissionv1.MutatingAdmissionPolicyBindingSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*admissionv1.MutatingAdmissionPolicyBinding]{
		Group: admissionv1.GroupName, Version: "v1", Kind: "MutatingAdmissionPolicyBinding", Resource: "mutatingadmissionpolicybindings",
		Categories: extensions,
		Default:    func(b *admissionv1.MutatingAdmissionPolicyBinding) { defaultMatch(b.Spec.MatchResources) },
		Rules: resource.Rules[*admissionv1.MutatingAdmissionPolicyBinding]{
			Validate: func(_ context.Context, b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
				return checkMutatingBinding(b)
			},
			ValidateUpdate: func(_ context.Context, b, _ *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
				return checkMutatingBinding(b)
			},
		},
		Columns: []table.Column{table.Name(), table.Text("PolicyName", spec["policyName"]), table.Text("ParamRef", spec["paramRef"]), table.Age()},
		Row: func(b *admissionv1.MutatingAdmissionPolicyBinding) resource.Row {
			return resource.Row{Cells: []any{b.Name, b.Spec.PolicyName, paramRefText(b.Spec.ParamRef), table.Since(b.CreationTimestamp)}}
		},
	})
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
