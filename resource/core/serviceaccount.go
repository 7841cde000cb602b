package core

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/table"
)

// ServiceAccounts are the identities of what runs in a cluster.
func ServiceAccounts() *resource.Kind {
	return resource.Define(resource.Description[*corev1.ServiceAccount]{
		Group: "", Version: "v1", Kind: "ServiceAccount", Resource: "serviceaccounts",
		Namespaced: true, ShortNames: []string{"sa"},
		UnconditionalUpdate: true, ReturnDeleted: true,
		Actions: []resource.Action{{
			Name: "token", Body: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), Verbs: []string{"create"},
			New: func() runtime.Object { return &authenticationv1.TokenRequest{} },
		}},
		Columns: []table.Column{table.Name(), table.Age()},
		Row: func(sa *corev1.ServiceAccount) resource.Row {
			return resource.Row{Cells: []any{sa.Name, table.Since(sa.CreationTimestamp)}}
		},
	})
}
