//! Operations a frame for the characters of Wang's thesis ("Real-time enveloping with rotational regression", 2007,
//! table 6.1), by the run time's own counting rule.
//!
//! An addition, a multiplication and a comparison count one each, positions only:
//!
//!   SSD   V (24 K + 18)                         K = 4 influences: blend a 3×4 matrix, then transform the vertex
//!   RR    SSD + 72 P² + 96 P J + P (18 C + 130)    proxy transforms from gradients (c₁, 4P × 3P) and from bones
//!                                                (c₂, 4P × 4J), for x, y and z; C = 7 columns a predictor:
//!                                                two joints and a constant, to first order as in the thesis
//!
//! The thesis counts its matrices unfactored, 216 P² + 288 P J, and about twice as much for a vertex.

/// A row of the thesis' table.
pub struct Character {
    /// Its name there.
    pub name: &'static str,
    /// V, J, P.
    pub size: [u64; 3],
    /// The thesis' own counts, millions: rotational regression, SSD.
    pub published: [f64; 2],
}

/// The thesis' nine characters.
pub const CHARACTERS: [Character; 9] = [
    Character { name: "James", size: [11_106, 73, 80], published: [5.1, 2.6] },
    Character { name: "Drago", size: [12_500, 16, 80], published: [5.0, 2.9] },
    Character { name: "Gorilla", size: [25_438, 61, 100], published: [9.9, 5.9] },
    Character { name: "Dragon Leg", size: [2210, 14, 40], published: [1.0, 0.5] },
    Character { name: "T-Rex", size: [29_380, 155, 60], published: [9.4, 6.8] },
    Character { name: "Elbow", size: [2610, 2, 30], published: [1.0, 0.6] },
    Character { name: "Bar", size: [80, 2, 25], published: [0.2, 0.0] },
    Character { name: "Muscle Arm", size: [5256, 3, 30], published: [2.0, 1.2] },
    Character { name: "Shoulder", size: [2610, 2, 40], published: [1.0, 0.6] },
];

/// Linear blend skinning with four influences, operations a frame.
pub fn ssd(vertices: u64) -> u64 {
    vertices * (24 * 4 + 18)
}

/// Rotational regression with every block of c₁ and c₂ present and four influences a vertex, operations a frame.
pub fn rotational_regression([vertices, joints, proxies]: [u64; 3]) -> u64 {
    ssd(vertices) + 72 * proxies * proxies + 96 * proxies * joints + proxies * (18 * 7 + 130)
}

/// The table in Markdown.
pub fn markdown() -> String {
    let mut text = String::from(
        "| character | vertices | joints | proxy bones | SSD, M | RR, M | RR / SSD | thesis: SSD, M | RR, M | RR / SSD |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for Character { name, size, published } in &CHARACTERS {
        let (ssd, rr) = (ssd(size[0]) as f64 / 1e6, rotational_regression(*size) as f64 / 1e6);
        let ratio = if published[1] > 0.0 { format!("{:.2}", published[0] / published[1]) } else { "–".into() };
        text.push_str(&format!(
            "| {name} | {} | {} | {} | {ssd:.2} | {rr:.2} | {:.2} | {:.1} | {:.1} | {ratio} |\n",
            size[0],
            size[1],
            size[2],
            rr / ssd,
            published[1],
            published[0]
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_t_rex_by_hand() {
        // 29,380 × 114; and 72 × 3,600 + 96 × 9,300 + 60 × 256 more.
        assert_eq!(ssd(29_380), 3_349_320);
        assert_eq!(rotational_regression([29_380, 155, 60]), 3_349_320 + 259_200 + 892_800 + 15_360);
    }

    #[test]
    fn within_a_factor_of_two_for_characters_as_the_thesis_claims() {
        for character in CHARACTERS.iter().filter(|c| c.size[0] > 2000) {
            let ratio = rotational_regression(character.size) as f64 / ssd(character.size[0]) as f64;
            assert!(ratio < 2.0, "{}: {ratio}", character.name);
        }
    }
}
