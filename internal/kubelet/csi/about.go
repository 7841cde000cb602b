package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokensKey is where a driver finds the tokens of a pod.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// about is the context of a volume, with what the driver wants to know of the pod, and the secrets for publishing it.
// The tokens that the driver wants are in one of the two.
func (m *mount) about(ctx context.Context) (all, secrets map[string]string, err error) {
	if secrets, err = m.secrets(ctx, m.publishSecret); err != nil {
		return nil, nil, err
	}
	if all = maps.Clone(m.context); all == nil {
		all = map[string]string{}
	}
	if m.options == nil {
		return all, secrets, nil
	}
	if told := m.options.Spec.PodInfoOnMount; told != nil && *told {
		all["csi.storage.k8s.io/pod.name"] = m.pod.Name
		all["csi.storage.k8s.io/pod.namespace"] = m.pod.Namespace
		all["csi.storage.k8s.io/pod.uid"] = string(m.pod.UID)
		all["csi.storage.k8s.io/serviceAccount.name"] = m.pod.Spec.ServiceAccountName
		all["csi.storage.k8s.io/ephemeral"] = strconv.FormatBool(m.inline())
	}
	if len(m.options.Spec.TokenRequests) == 0 {
		return all, secrets, nil
	}
	tokens, err := m.tokens(ctx)
	if err != nil {
		return nil, nil, err
	}
	if hidden := m.options.Spec.ServiceAccountTokenInSecrets; hidden == nil || !*hidden {
		all[tokensKey] = tokens
		return all, secrets, nil
	}
	if secrets == nil {
		secrets = map[string]string{}
	}
	secrets[tokensKey] = tokens
	return all, secrets, nil
}

// issued is a token in the form in which drivers get it.
type issued struct {
	Token               string      `json:"token"`
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp"`
}

// tokens are the pod's, for each audience that the driver asks for.
func (m *mount) tokens(ctx context.Context) (string, error) {
	all := map[string]issued{}
	account := m.pod.Spec.ServiceAccountName
	for _, r := range m.options.Spec.TokenRequests {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: r.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: m.pod.Name, UID: m.pod.UID},
		}}
		if r.ExpirationSeconds == nil {
			request.Spec.ExpirationSeconds = new(int64(time.Hour / time.Second))
		}
		if r.Audience != "" {
			request.Spec.Audiences = []string{r.Audience}
		}
		answer, err := m.Kube.CoreV1().ServiceAccounts(m.pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("ask for a token of account %s for driver %s: %w", account, m.record.Driver, err)
		}
		all[r.Audience] = issued{answer.Status.Token, answer.Status.ExpirationTimestamp}
	}
	encoded, err := json.Marshal(all)
	return string(encoded), err
}
