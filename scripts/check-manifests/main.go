// Check Kubernetes manifests as an API server does before it stores them: with Kubernetes' own code, without a server.
//
//	check-manifests FOLDER TEMPLATE...
//
// FOLDER is rendered as by `kubectl kustomize`; each object is decoded strictly (unknown, duplicate and mistyped fields
// are errors), gets its defaults, and is validated by the functions that the API server calls. Each TEMPLATE is a pod
// template for Spark: it is validated with the name and the image that Spark fills in.
//
// Prints one line for each object that is right; prints what is wrong on stderr and exits with 1.
package main

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var decoder = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()

func main() {
	if len(os.Args) < 2 {
		fail("usage: check-manifests FOLDER TEMPLATE...")
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), os.Args[1])
	if err != nil {
		fail(os.Args[1], err)
	}
	for _, resource := range rendered.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			fail(resource.CurId().String(), err)
		}
		report(resource.GetKind()+" "+resource.GetName(), decode(text), validate)
	}
	for _, path := range os.Args[2:] {
		text, err := os.ReadFile(path)
		if err != nil {
			fail(path, err)
		}
		report("template "+path[strings.LastIndex(path, "/")+1:], decode(text), validateTemplate)
	}
}

func decode(text []byte) runtime.Object {
	object, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		fail(err)
	}
	return object
}

func report(name string, object runtime.Object, check func(runtime.Object) field.ErrorList) {
	if wrong := check(object); len(wrong) > 0 {
		fail(name, wrong.ToAggregate())
	}
	fmt.Println(name)
}

func validate(object runtime.Object) field.ErrorList {
	switch it := object.(type) {
	case *batch.CronJob:
		options := pod.GetValidationOptionsFromPodTemplate(&it.Spec.JobTemplate.Spec.Template, nil)
		return batchvalidation.ValidateCronJobCreate(it, options)
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(it)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(it)
	case *rbac.Role:
		return rbacvalidation.ValidateRole(it)
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(it)
	}
	fail(fmt.Sprintf("no check for %T; add one to scripts/check-manifests", object))
	return nil
}

func validateTemplate(object runtime.Object) field.ErrorList {
	it, isPod := object.(*core.Pod)
	if !isPod {
		fail(fmt.Sprintf("%T is not a Pod", object))
	}
	it.Name, it.Namespace = "executor", "packstone"
	for at := range it.Spec.Containers {
		if it.Spec.Containers[at].Image == "" {
			it.Spec.Containers[at].Image = "registry.example/packstone"
		}
	}
	return corevalidation.ValidatePodCreate(it, pod.GetValidationOptionsFromPodSpecAndMeta(&it.Spec, nil, &it.ObjectMeta, nil))
}

func fail(what ...any) {
	fmt.Fprintln(os.Stderr, what...)
	os.Exit(1)
}
