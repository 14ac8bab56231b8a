package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"os"

	"signalbox/internal/jsonwalk"
)

// The bounds of verifying.
const (
	// maxKeys bounds a file of keys.
	maxKeys = 256 << 10
	// maxSignatures bounds the signatures of a card that are tried, since each
	// costs an operation of public-key cryptography for each key.
	maxSignatures = 8
	// minRSA is the least size of an RSA key, in bits (RFC 7518, 3.3).
	minRSA = 2048
)

// signature is one of a card's (JWS, RFC 7515). What its header says of where a
// key may be fetched (jku, x5u) is the card's own word and is not looked at.
type signature struct {
	Protected string `json:"protected"`
	Signature string `json:"signature"`
}

// jwk is a key of a JSON Web Key Set (RFC 7517).
type jwk struct {
	ID    string `json:"kid"`
	Type  string `json:"kty"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
	N     string `json:"n"`
	E     string `json:"e"`
}

// Verify gives the id of the key of a file (a JSON Web Key Set) that made one of a
// card's signatures; without one it says why, as half a sentence.
func Verify(card []byte, file string) (key, why string) {
	keys, why := readKeys(file)
	if why != "" {
		return "", why
	}
	var signatures []signature
	if json.Unmarshal(jsonwalk.Member(card, "signatures"), &signatures) != nil || len(signatures) == 0 {
		return "", "the card has none"
	}
	if key, ok := signedBy(card, signatures, keys); ok {
		return key, ""
	}
	return "", "no configured key made one over this card"
}

func readKeys(file string) ([]jwk, string) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "the file of the keys cannot be opened"
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeys+1))
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err != nil || len(b) > maxKeys || json.Unmarshal(b, &set) != nil || len(set.Keys) == 0 {
		return nil, "the file of the keys is no JSON Web Key Set"
	}
	return set.Keys, ""
}

// signedBy gives the id of the key that made one of the signatures over the card.
func signedBy(card []byte, signatures []signature, keys []jwk) (string, bool) {
	payloads := forms(card)
	for _, s := range signatures[:min(len(signatures), maxSignatures)] {
		protected, err := base64.RawURLEncoding.DecodeString(s.Protected)
		if err != nil {
			continue
		}
		var header struct {
			Alg      string          `json:"alg"`
			ID       string          `json:"kid"`
			Critical json.RawMessage `json:"crit"`
		}
		sig, err := base64.RawURLEncoding.DecodeString(s.Signature)
		// What is critical must be understood, and nothing of it is here.
		if err != nil || json.Unmarshal(protected, &header) != nil || header.ID == "" || header.Critical != nil {
			continue
		}
		for _, key := range keys {
			if key.ID != header.ID || key.Alg != "" && key.Alg != header.Alg {
				continue
			}
			for _, payload := range payloads {
				if key.verifies(header.Alg, s.Protected+"."+base64.RawURLEncoding.EncodeToString(payload), sig) {
					return key.ID, true
				}
			}
		}
	}
	return "", false
}

// verifies checks a signature by one of the three algorithms (RFC 7518, RFC
// 8037) that are known here. The key decides which of them it is good for.
func (j jwk) verifies(alg, input string, sig []byte) bool {
	sum := sha256.Sum256([]byte(input))
	switch {
	case alg == "ES256" && j.Type == "EC" && j.Curve == "P-256":
		key, ok := j.p256()
		if !ok || len(sig) != 64 {
			return false
		}
		return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
	case alg == "RS256" && j.Type == "RSA":
		n, e := number(j.N), number(j.E)
		if n.BitLen() < minRSA || n.BitLen() > 4*minRSA || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return false
		}
		return rsa.VerifyPKCS1v15(&rsa.PublicKey{N: n, E: int(e.Int64())}, crypto.SHA256, sum[:], sig) == nil
	case (alg == "EdDSA" || alg == "Ed25519") && j.Type == "OKP" && j.Curve == "Ed25519":
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		return err == nil && len(x) == ed25519.PublicKeySize && ed25519.Verify(x, []byte(input), sig)
	}
	return false
}

// p256 gives a key whose point is on the curve.
func (j jwk) p256() (*ecdsa.PublicKey, bool) {
	x, errX := base64.RawURLEncoding.DecodeString(j.X)
	y, errY := base64.RawURLEncoding.DecodeString(j.Y)
	if errX != nil || errY != nil || len(x) != 32 || len(y) != 32 {
		return nil, false
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	return key, err == nil
}

// number reads an unsigned number; what is none is zero.
func number(s string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}
