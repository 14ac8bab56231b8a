// Package redacttest gives secrets that are none, one of each kind that redact
// knows, for tests that plant them and search everything that was written.
//
// The values are put together when they are asked for, so that no file of the
// project holds anything that looks like a secret.
package redacttest

import (
	"encoding/base64"
	"strings"
)

// Canary is one planted secret.
type Canary struct {
	// Kind is the name that stands in the marker.
	Kind string
	// Secret must not be found in anything that is stored, shown or logged. One
	// of several lines may be found in other spellings: search for each line.
	Secret string
	// Context is text as agents and programs write it, with Secret in it.
	Context string
}

// Canaries gives one canary for each kind and usual form.
func Canaries() []Canary {
	list := []Canary{
		in("private-key", pem("RSA PRIVATE KEY"), "$ cat key.pem\n", "\nthat was it"),
		in("private-key", pem("OPENSSH PRIVATE KEY"), "", ""),
		in("private-key", strings.ReplaceAll(pem("PRIVATE KEY"), "\n", `\n`), `{"private_key": "`, `", "type": "service_account"}`),
		in("private-key", base64.StdEncoding.EncodeToString([]byte(pem("PRIVATE KEY"))), "tls.key: ", "\n"),
		in("aws-key", "AK"+"IA"+upper(16), "aws_access_key_id = ", "\n"),
		in("aws-key", mixed(20)+"/"+mixed(19), "aws_secret_access_key = ", "\n"),
		in("aws-key", mixed(40), `"SecretAccessKey": "`, `",`),
		in("github-token", "gh"+"p_"+mixed(36), "remote: token ", " is valid"),
		in("github-token", "gh"+"o_"+mixed(36), "", ""),
		in("github-token", "github"+"_pat_"+mixed(22)+"_"+mixed(59), "use ", "."),
		in("gitlab-token", "gl"+"pat-"+mixed(20), "PRIVATE-TOKEN: ", "\n"),
		in("model-key", "s"+"k-proj-"+mixed(48), "OPENAI_API_KEY=", "\n"),
		in("model-key", "s"+"k-ant-api03-"+mixed(93), `{"key": "`, `"}`),
		in("google-key", "AI"+"za"+mixed(35), "https://maps.example/js?key=", "&v=3"),
		in("slack-token", "xo"+"xb-"+number(12)+"-"+number(12)+"-"+mixed(24), "slack ", ", then"),
		in("jwt", jwt(), "Set-Cookie: session=", "; HttpOnly"),
		in("authorization", mixed(24), "Authorization: Bearer ", "\r\n"),
		in("authorization", base64.StdEncoding.EncodeToString([]byte("user:"+mixed(12))), "> Authorization: Basic ", "\r\n"),
		in("authorization", mixed(32), `curl -H "authorization: Bearer `, `" https://api.example`),
		in("authorization", mixed(32), "sent with bearer ", " as usual"),
		in("url-password", mixed(14), "postgres://app:", "@db.example:5432/app"),
		in("url-password", mixed(10)+"!x", "redis://:", "@cache.example/0"),
		in("assigned-secret", mixed(16), "DB_PASSWORD=", "\n"),
		in("assigned-secret", mixed(24), `{"apiKey": "`, `"}`),
		in("assigned-secret", mixed(20), "client_secret: ", "\n"),
		in("assigned-secret", mixed(20), `{\"refresh_token\":\"`, `\"}`),
		in("assigned-secret", mixed(12)+`\"`+mixed(6), `"password": "`, `", "x": 1`),
		in("assigned-secret", mixed(16), `os.environ["APP_SECRET"] = "`, `"`),
		in("assigned-secret", mixed(20), "deploy --auth-token ", " --yes"),
		in("npm-token", "np"+"m_"+mixed(36), "//registry.example/:_authToken=", "\n"),
		in("pypi-token", "py"+"pi-"+"AgEIcHlwaS5vcmc"+mixed(60), "password = ", "\n"),
		in("stripe-key", "s"+"k_live_"+mixed(24), "stripe(", ")"),
		in("stripe-key", "wh"+"sec_"+mixed(32), "", ""),
		in("huggingface-token", "h"+"f_"+mixed(34), "login ", "\n"),
		in("sendgrid-key", "S"+"G."+mixed(22)+"."+mixed(43), "", ""),
		in("age-key", "AGE-"+"SECRET-KEY-1"+upper(58), "# key\n", "\n"),
		in("signalbox-token", "sb"+"x_"+mixed(43), "SIGNALBOX_TOKEN is ", ""),
	}
	return list
}

func in(kind, secret, before, after string) Canary {
	return Canary{Kind: kind, Secret: secret, Context: before + secret + after}
}

// The parts below are walks over an alphabet with a step that has no common
// factor with its length, so they repeat no run and are the same every time.

func walk(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[(i*i*3+i*17+n*7)%len(alphabet)]
	}
	return string(b)
}

func mixed(n int) string {
	// A letter, a capital and a digit first: each value has some of each.
	return walk("q7Rk2Zt9", 3) + walk("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", n-3)
}

func upper(n int) string  { return walk("ABCDEFGHJKLMNPQRSTUVWXYZ234567", n) }
func number(n int) string { return walk("9182736450", n) }

func jwt() string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc([]byte(`{"sub":"1234567890","name":"Canary"}`)) + "." + mixed(43)
}

func pem(label string) string {
	var b strings.Builder
	b.WriteString("-----" + "BEGIN " + label + "-----\n")
	for i := range 6 {
		b.WriteString(mixed(58+i%2) + "+/" + mixed(4-i%2) + "\n")
	}
	b.WriteString("-----" + "END " + label + "-----")
	return b.String()
}
