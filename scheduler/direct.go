package scheduler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// direct posts bindings without what client-go does around each request, which costs as much as the request itself.
type direct struct {
	client *http.Client
	base   string
}

// directly returns how bindings are posted directly, or nil if client does not talk HTTP.
func directly(client rest.Interface) *direct {
	c, ok := client.(*rest.RESTClient)
	if !ok || c == nil || c.Client == nil {
		return nil
	}
	return &direct{client: c.Client, base: c.Get().URL().String()}
}

var protobuf = func() runtime.Encoder {
	found, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return scheme.Codecs.EncoderForVersion(found.Serializer, corev1.SchemeGroupVersion)
}()

// bind returns whether the server has said that the binding is done. If it has said anything else, client-go
// knows how to go on: how long to wait, how often to ask again, what the error is.
func (d *direct) bind(ctx context.Context, binding *corev1.Binding) (bool, error) {
	body, err := runtime.Encode(protobuf, binding)
	if err != nil {
		return false, fmt.Errorf("encode binding: %w", err)
	}
	at := d.base + "/namespaces/" + url.PathEscape(binding.Namespace) + "/pods/" + url.PathEscape(binding.Name) + "/binding"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("bind pod %s: %w", binding.Name, err)
	}
	request.Header["Content-Type"] = contentType
	request.Header["Accept"] = contentType
	answer, err := d.client.Do(request)
	if err != nil {
		return false, fmt.Errorf("bind pod %s: %w", binding.Name, err)
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, mostAnswer)) // so that the connection can be used again
	return answer.StatusCode == http.StatusCreated && err == nil, nil
}

// mostAnswer is more than any answer to a binding takes.
const mostAnswer = 1 << 16

var contentType = []string{runtime.ContentTypeProtobuf}
