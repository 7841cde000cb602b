package rbac

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
	"github.com/millrace/millrace/internal/server/resource/table"
)

var bindingColumns = []table.Column{
	table.Name(),
	table.Text("Role", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]),
	table.Age(),
	table.Wide(table.Text("Users", "Users in the roleBinding")),
	table.Wide(table.Text("Groups", "Groups in the roleBinding")),
	table.Wide(table.Text("ServiceAccounts", "ServiceAccounts in the roleBinding")),
}

// RoleBindings grant a role to subjects in a namespace.
func RoleBindings() *resource.Kind {
	return bindings(resource.Description[*rbacv1.RoleBinding]{Kind: "RoleBinding", Resource: "rolebindings", Namespaced: true},
		func(b *rbacv1.RoleBinding) (*rbacv1.RoleRef, []rbacv1.Subject) { return &b.RoleRef, b.Subjects })
}

// ClusterRoleBindings grant a cluster role to subjects in all namespaces.
func ClusterRoleBindings() *resource.Kind {
	return bindings(resource.Description[*rbacv1.ClusterRoleBinding]{Kind: "ClusterRoleBinding", Resource: "clusterrolebindings"},
		func(b *rbacv1.ClusterRoleBinding) (*rbacv1.RoleRef, []rbacv1.Subject) { return &b.RoleRef, b.Subjects })
}

// bindings completes a description with what both kinds have in common: a role and its subjects.
func bindings[P resource.Object](d resource.Description[P], parts func(P) (*rbacv1.RoleRef, []rbacv1.Subject)) *resource.Kind {
	check := func(b P) field.ErrorList {
		ref, subjects := parts(b)
		return checkBinding(*ref, subjects, d.Namespaced)
	}
	d.Group, d.Version = rbacv1.GroupName, "v1"
	d.UnconditionalUpdate, d.CreateOnUpdate, d.Name = true, true, segment
	d.Default = func(b P) {
		ref, subjects := parts(b)
		defaultRef(ref)
		defaultSubjects(subjects)
	}
	d.Rules = resource.Rules[P]{
		Validate: func(_ context.Context, b P) field.ErrorList { return check(b) },
		ValidateUpdate: func(_ context.Context, b, old P) field.ErrorList {
			now, _ := parts(b)
			before, _ := parts(old)
			return append(check(b), sameRef(*now, *before)...)
		},
	}
	d.Columns = bindingColumns
	d.Row = func(b P) resource.Row {
		ref, subjects := parts(b)
		users, groups, accounts := bySort(subjects)
		return resource.Row{Cells: []any{b.GetName(), ref.Kind + "/" + ref.Name, table.Since(b.GetCreationTimestamp()), users, groups, accounts}}
	}
	return resource.Define(d)
}

func defaultRef(r *rbacv1.RoleRef) {
	if r.APIGroup == "" {
		r.APIGroup = rbacv1.GroupName
	}
}

func defaultSubjects(subjects []rbacv1.Subject) {
	for i := range subjects {
		s := &subjects[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func bySort(subjects []rbacv1.Subject) (users, groups, accounts string) {
	var u, g, a []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			u = append(u, s.Name)
		case rbacv1.GroupKind:
			g = append(g, s.Name)
		case rbacv1.ServiceAccountKind:
			a = append(a, s.Namespace+"/"+s.Name)
		}
	}
	return strings.Join(u, ", "), strings.Join(g, ", "), strings.Join(a, ", ")
}

func sameRef(now, before rbacv1.RoleRef) field.ErrorList {
	if now == before {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), quote.Of(now), "cannot change roleRef")}
}

func checkBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	errs := checkRef(ref, namespaced)
	for i := range subjects {
		errs = append(errs, checkSubject(&subjects[i], namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func checkRef(ref rbacv1.RoleRef, namespaced bool) field.ErrorList {
	path := field.NewPath("roleRef")
	errs := check.OneOf(ref.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	errs = append(errs, check.OneOf(ref.Kind, path.Child("kind"), kinds...)...)
	if ref.Name == "" {
		return append(errs, field.Required(path.Child("name"), ""))
	}
	return append(errs, check.Invalid(path.Child("name"), ref.Name, segment(ref.Name, false))...)
}

func checkSubject(s *rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, check.Invalid(path.Child("name"), s.Name, validation.ValidateServiceAccountName(s.Name, false))...)
		}
		errs = append(errs, check.OneOf(s.APIGroup, path.Child("apiGroup"), "")...)
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, check.OneOf(s.APIGroup, path.Child("apiGroup"), rbacv1.GroupName)...)
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
