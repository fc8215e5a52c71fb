import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * Villages that do not exist, the same on every machine, so that there are more places than caches
 * hold. Each has one name, in the language of its country.
 */
final class Villages {
    private static final long FIRST_ID = 200000001;
    private static final int COUNT = 5000;
    private static final double MOST_DEGREES_FROM_REGION = 0.35;
    private static final Map<String, String> LANGUAGES =
        Map.of("AT", "de", "CZ", "cs", "DE", "de", "HU", "hu", "PL", "pl", "SK", "sk");

    private final SplittableRandom random = new SplittableRandom(FIRST_ID);
    private final List<Map<String, String>> regions;
    private final List<Map<String, String>> parts;

    private Villages(List<Map<String, String>> regions, List<Map<String, String>> parts) {
        this.regions = regions;
        this.parts = parts;
    }

    /** Rows with the columns of cities. */
    static List<Map<String, String>> generate(
            List<Map<String, String>> regions, List<Map<String, String>> parts) {
        Villages villages = new Villages(regions, parts);
        List<Map<String, String>> rows = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            rows.add(villages.village(FIRST_ID + i));
        }
        return rows;
    }

    private Map<String, String> village(long id) {
        Map<String, String> region = any(regions);
        String language = LANGUAGES.get(region.get("countryIso"));
        Map<String, String> row = new LinkedHashMap<>();
        row.put("id", Long.toString(id));
        row.put("countryIso", region.get("countryIso"));
        row.put("regionId", region.get("id"));
        row.put("isFeatured", "false");
        row.put("population", Integer.toString(random.nextInt(50, 3000)));
        row.put("lat", near(region.get("lat")));
        row.put("lon", near(region.get("lon")));
        row.put(language, part(language, "first") + part(language, "last"));
        return row;
    }

    private String part(String language, String place) {
        return any(parts.stream()
                .filter(part -> part.get("language").equals(language)
                        && part.get("place").equals(place))
                .toList())
            .get("text");
    }

    private String near(String degrees) {
        double offset = MOST_DEGREES_FROM_REGION * (2 * random.nextDouble() - 1);
        return Double.toString(Outline.rounded(Double.parseDouble(degrees) + offset));
    }

    private <T> T any(List<T> list) {
        return list.get(random.nextInt(list.size()));
    }
}
