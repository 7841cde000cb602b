package core

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ServiceAccounts are the identities of processes in a cluster.
func ServiceAccounts() *resource.Kind {
	return resource.Define(resource.Description[*corev1.ServiceAccount]{
		Group: "", Version: "v1", Kind: "ServiceAccount", Resource: "serviceaccounts",
		ValidateMetaTwice: true,
		Namespaced:        true, ShortNames: []string{"sa"},
		UnconditionalUpdate: true, ReturnDeleted: true,
		Rules: resource.Rules[*corev1.ServiceAccount]{
			PrepareCreate: func(_ context.Context, sa *corev1.ServiceAccount) { keepSecretNames(sa) },
			PrepareUpdate: func(_ context.Context, sa, _ *corev1.ServiceAccount) { keepSecretNames(sa) },
			Warnings:      func(_ context.Context, sa, old *corev1.ServiceAccount) []string { return accountWarnings(sa, old) },
		},
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

// keepSecretNames removes everything but the names of the secrets, which are in the account's own namespace.
func keepSecretNames(sa *corev1.ServiceAccount) {
	for i := range sa.Secrets {
		sa.Secrets[i] = corev1.ObjectReference{Name: sa.Secrets[i].Name}
	}
}

const mountableSecrets = "kubernetes.io/enforce-mountable-secrets"

func accountWarnings(sa, old *corev1.ServiceAccount) []string {
	if old != nil {
		if _, before := old.Annotations[mountableSecrets]; before {
			return nil
		}
	}
	if _, now := sa.Annotations[mountableSecrets]; !now {
		return nil
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets", mountableSecrets)}
}
