/* Made by tools/make_fixture_affine.py; FNV-1a digests of codes, scales and biases of the
 * rows that its inputs() describes. */
#include <stdint.h>

enum { FIXTURE_ROWS = 16, FIXTURE_COLS = 256 };
static const struct {
    int bits, group;
    uint64_t digest[3];
} fixture_affine[] = {
    {2, 32, {0x92b2edeb81a980ebu, 0x12be690378b2f93cu, 0x319d4a264a65a922u}},
    {2, 64, {0x5ce3e7e9ae2ca875u, 0x4238d1782f3f75e6u, 0x75026aae85fbe485u}},
    {2, 128, {0x9ae23f182729c2c6u, 0xdcf68b536545f9beu, 0xae239982f48c20c0u}},
    {3, 32, {0xf9565d119210620fu, 0xb3c00b19dafd8096u, 0x319d4a264a65a922u}},
    {3, 64, {0x92e2b2e5875cc815u, 0x0aad483859d7b8b3u, 0x75026aae85fbe485u}},
    {3, 128, {0x4d18bfc1232a5fd8u, 0x7342c303146f3dd3u, 0xae239982f48c20c0u}},
    {4, 32, {0xdbb69da9fdf31287u, 0xeb6693f0b5674d71u, 0x319d4a264a65a922u}},
    {4, 64, {0x77a1b32c62140e28u, 0xd14232be801d0d0du, 0x75026aae85fbe485u}},
    {4, 128, {0x9359c680a65142fdu, 0x56c0a63734af26d9u, 0xae239982f48c20c0u}},
    {5, 32, {0xb7295be6bfd05a3cu, 0xf7f721af57f5ffbau, 0x319d4a264a65a922u}},
    {5, 64, {0x71401e1addfaacd5u, 0x883d561866987ac0u, 0x75026aae85fbe485u}},
    {5, 128, {0x40c763af6d209286u, 0x28ed4bf9aa1d6546u, 0xae239982f48c20c0u}},
    {6, 32, {0x6cfc20ed1f608e1bu, 0x5230aacec1925017u, 0x319d4a264a65a922u}},
    {6, 64, {0x5eadc50e31abfeddu, 0x52e9837841582674u, 0x75026aae85fbe485u}},
    {6, 128, {0xdf70a3657aa6e1d6u, 0x00b68debffc33170u, 0xae239982f48c20c0u}},
    {8, 32, {0xbc4405a5f0f6085cu, 0x1f717b2243c84089u, 0x319d4a264a65a922u}},
    {8, 64, {0xff869da8a13bafa9u, 0x614d0c0dcb2ce5fbu, 0x75026aae85fbe485u}},
    {8, 128, {0x4f162b92e27dfcd8u, 0x4d6dcf09754a8d5eu, 0xae239982f48c20c0u}},
};
