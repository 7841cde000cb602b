package furnish

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// login is an entry of a Docker configuration.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Credentials returns the entries of a pod's pull secrets for an image's registry, and then what plugins have. Missing
// and invalid secrets are skipped, because the image may not need any.
func (f *Furnisher) Credentials(ctx context.Context, pod *corev1.Pod, image string) ([]container.Credential, error) {
	var all []container.Credential
	for _, ref := range pod.Spec.ImagePullSecrets {
		data, err := f.objects.secret(ctx, pod, ref.Name)
		if err != nil {
			f.Logger.Warn("pull secret cannot be read", "pod", pod.Namespace+"/"+pod.Name, "secret", ref.Name, "err", err)
			continue
		}
		for server, l := range logins(data) {
			if !fits(server, image) {
				continue
			}
			l.split()
			all = append(all, container.Credential{
				Username: l.Username, Password: l.Password, Auth: l.Auth, ServerAddress: server, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken,
			})
		}
	}
	if f.Registries != nil {
		all = append(all, f.Registries.Credentials(ctx, pod, image)...)
	}
	return all, nil
}

func logins(data map[string][]byte) map[string]login {
	var config struct {
		Auths map[string]login `json:"auths"`
	}
	if text, ok := data[corev1.DockerConfigJsonKey]; ok {
		if json.Unmarshal(text, &config) == nil {
			return config.Auths
		}
	}
	if text, ok := data[corev1.DockerConfigKey]; ok {
		if json.Unmarshal(text, &config.Auths) == nil {
			return config.Auths
		}
	}
	return nil
}

// split reads user and password from the combined form.
func (l *login) split() {
	if l.Username != "" || l.Auth == "" {
		return
	}
	if text, err := base64.StdEncoding.DecodeString(l.Auth); err == nil {
		l.Username, l.Password, _ = strings.Cut(string(text), ":")
	}
}

// fits reports whether credentials for server apply to an image: the host is equal, and the path is a prefix.
func fits(server, image string) bool {
	server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	server = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(server, "/"), "/v1"), "/v2")
	host, _, _ := strings.Cut(image, "/")
	if !strings.ContainsAny(host, ".:") && host != "localhost" {
		image = "docker.io/" + image
	}
	server = strings.Replace(server, "index.docker.io", "docker.io", 1)
	return image == server || strings.HasPrefix(image, server+"/")
}
