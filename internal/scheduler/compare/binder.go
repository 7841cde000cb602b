package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// binder only posts bindings, without the additional work of client-go's requests.
type binder struct {
	client *http.Client
	host   string
	nodes  []corev1.Node
}

// bindAll is the main function of the bare binder's process. Its arguments are a kubeconfig, a namespace, and the
// number of concurrent bindings.
func bindAll(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New(bareBinder + " KUBECONFIG NAMESPACE PARALLEL")
	}
	parallel, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	config.QPS, config.ContentType = -1, runtime.ContentTypeProtobuf
	b := &binder{host: config.Host}
	if b.client, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfigAndClient(config, b.client)
	if err != nil {
		return err
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: mine})
	if err != nil {
		return err
	}
	b.nodes = nodes.Items
	pods, err := kube.CoreV1().Pods(args[1]).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return err
	}
	posts, ctx := errgroup.WithContext(ctx)
	for first := range parallel {
		posts.Go(func() error {
			for i := first; i < len(pods.Items); i += parallel {
				if err := b.bind(ctx, &pods.Items[i], i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := posts.Wait(); err != nil {
		return err
	}
	<-ctx.Done() // a scheduler does not exit either
	return nil
}

var protobuf = func() runtime.Encoder {
	found, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return scheme.Codecs.EncoderForVersion(found.Serializer, corev1.SchemeGroupVersion)
}()

func (b *binder) bind(ctx context.Context, pod *corev1.Pod, i int) error {
	body, err := runtime.Encode(protobuf, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.nodes[i%len(b.nodes)].Name},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/binding", b.host, pod.Namespace, pod.Name), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", runtime.ContentTypeProtobuf)
	request.Header.Set("Accept", runtime.ContentTypeProtobuf)
	answer, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("binding of %s: %s", pod.Name, answer.Status)
	}
	return nil
}
