package core

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Secrets hold confidential data.
func Secrets() *resource.Kind {
	doc := corev1.Secret{}.SwaggerDoc()
	return resource.Define(resource.Description[*corev1.Secret]{
		Group: "", Version: "v1", Kind: "Secret", Resource: "secrets",
		ValidateMetaTwice:   true,
		Namespaced:          true,
		UnconditionalUpdate: true,
		Default:             defaultSecret,
		Rules: resource.Rules[*corev1.Secret]{
			Validate:       func(_ context.Context, s *corev1.Secret) field.ErrorList { return checkSecret(s) },
			ValidateUpdate: func(_ context.Context, s, old *corev1.Secret) field.ErrorList { return checkSecretUpdate(s, old) },
			Warnings:       func(_ context.Context, s, _ *corev1.Secret) []string { return secretWarnings(s) },
		},
		Fields:  []resource.Field{{Label: "type"}},
		Columns: []table.Column{table.Name(), table.Text("Type", doc["type"]), table.Text("Data", doc["data"]), table.Age()},
		Row: func(s *corev1.Secret) resource.Row {
			return resource.Row{Cells: []any{s.Name, string(s.Type), int64(len(s.Data)), table.Since(s.CreationTimestamp)}}
		},
	})
}

// defaultSecret moves stringData, which is write-only, to data.
func defaultSecret(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, text := range s.StringData {
		s.Data[key] = []byte(text)
	}
	s.StringData = nil
}

func checkSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	errs := check.Immutable(s.Type, old.Type, field.NewPath("type"))
	if isTrue(old.Immutable) {
		if !isTrue(s.Immutable) {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableWhenSet))
		}
		if !maps.EqualFunc(s.Data, old.Data, slices.Equal[[]byte]) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableWhenSet))
		}
	}
	return append(errs, checkSecret(s)...)
}

func checkSecret(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, checkDataKey("data", key)...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize))
	}
	return append(errs, checkSecretType(s)...)
}

func checkSecretType(s *corev1.Secret) field.ErrorList {
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			return field.ErrorList{field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), "")}
		}
	case corev1.SecretTypeDockercfg:
		return checkDockerConfig(s, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		return checkDockerConfig(s, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			return needData(s, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			return field.ErrorList{field.Required(dataKey(corev1.SSHAuthPrivateKey), "")}
		}
	case corev1.SecretTypeTLS:
		return needData(s, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return nil
}

func dataKey(key string) *field.Path { return field.NewPath("data").Key(key) }

func needData(s *corev1.Secret, keys ...string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range keys {
		if _, there := s.Data[key]; !there {
			errs = append(errs, field.Required(dataKey(key), ""))
		}
	}
	return errs
}

func checkDockerConfig(s *corev1.Secret, key string) field.ErrorList {
	config, there := s.Data[key]
	if !there {
		return field.ErrorList{field.Required(dataKey(key), "")}
	}
	if err := json.Unmarshal(config, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(dataKey(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func secretWarnings(s *corev1.Secret) []string {
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
